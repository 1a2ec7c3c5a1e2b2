package lancespark.source;

import lancespark.protocol.Message;
import lancespark.protocol.Protocol;

/** The header of a pickled source: what it has pinned. */
final class Pinned {
  /** The pinned version; 0 if there is no table yet. */
  final long version;
  final String identity, kind;
  final boolean hasLog;

  Pinned(byte[] pickle) {
    Message header = Message.header(pickle, Protocol.SOURCE);
    if (header == null) throw new IllegalStateException("the source of a lance table has no header");
    version = header.integer();
    identity = header.text();
    kind = header.text();
    hasLog = header.integer() != 0;
  }
}
