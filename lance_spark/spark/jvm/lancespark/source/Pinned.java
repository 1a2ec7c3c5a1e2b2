package lancespark.source;

import java.util.*;
import lancespark.protocol.Message;
import lancespark.protocol.Protocol;

/** The header of a pickled source: what it has pinned. */
@SuppressWarnings({"rawtypes", "unchecked"})
final class Pinned {
  /** The pinned version; 0 if there is no table yet. */
  final long version;
  final String identity;
  /** What the read can, see Abilities in lance_spark.spark.read.kind. */
  final Set abilities;
  /** Why a join by nearness does not find its rows; "" if one does. */
  final String unjoined;

  Pinned(byte[] pickle) {
    Message header = Message.header(pickle, Protocol.SOURCE);
    if (header == null) throw new IllegalStateException("the source of a lance table has no header");
    version = header.integer();
    identity = header.text();
    abilities = new HashSet(Arrays.asList(header.text().split(" ")));
    unjoined = header.text();
  }
}
