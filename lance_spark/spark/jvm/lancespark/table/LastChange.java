package lancespark.table;

import java.util.*;
import lancespark.core.Session;
import lancespark.protocol.Json;
import org.apache.spark.sql.SparkSession;

/** The last row-level command of each session. */
public class LastChange {
  private static final Map last = Collections.synchronizedMap(new WeakHashMap());

  public LastChange() {}

  static void set(RowLevelWrite write) { last.put(Session.active(), write); }

  /** The command of a session as JSON; null if it had none. */
  public String command(SparkSession session) {
    RowLevelWrite write = (RowLevelWrite) last.get(session);
    return write == null ? null : Json.text(write.command);
  }

  /** The options of the command's table. */
  public Map options(SparkSession session) { return ((RowLevelWrite) last.get(session)).options; }
}
