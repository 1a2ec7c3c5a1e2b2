package lancespark.table;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.core.Session;
import lancespark.protocol.Json;
import org.apache.spark.sql.SparkSession;

/** The last row-level command of each session. */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
public class LastChange {
  private static final Map last = Collections.synchronizedMap(new WeakHashMap());

  public LastChange() {}

  static void set(RowLevelWrite write) {
    ObjectNode change = Json.object();
    change.set("command", write.command);
    change.set("options", Json.texts(write.options));
    last.put(Session.active(), change);
  }

  /** The command of a session, and the options of its table; null if it had none. */
  public static JsonNode of(SparkSession session) { return (JsonNode) last.get(session); }

  /** The command of a session as JSON; null if it had none. */
  public String command(SparkSession session) {
    JsonNode change = of(session);
    return change == null ? null : Json.text(Json.at(change, "command"));
  }

  /** The options of the command's table. */
  public Map options(SparkSession session) { return (Map) new ObjectMapper().convertValue(Json.at(of(session), "options"), Map.class); }
}
