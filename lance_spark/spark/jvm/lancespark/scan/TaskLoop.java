package lancespark.scan;

import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.*;
import lancespark.core.Session;
import lancespark.protocol.Json;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation$;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** A question to Python: if it names tasks, executors run them, and it is asked again with their results, until there is the answer. */
@SuppressWarnings({"rawtypes", "unchecked"})
public abstract class TaskLoop {
  /** The columns of a table of tasks: the result of each. */
  public static final StructType RESULT = new StructType().add("result", DataTypes.BinaryType, false);
  private final ArrayNode results = Json.array();
  private Table tasks;

  /** Asks with the results of all tasks so far, which are in base64, in a list for each time. Returns tasks, whose rows are `RESULT`; null with the answer. */
  protected abstract Table ask(ArrayNode results);

  /** Asks for the first time. */
  protected void begin() { tasks = ask(results.deepCopy()); }

  /** True if there are tasks to be run before the answer. */
  protected boolean hasTasks() { return tasks != null; }

  /** Runs tasks until the answer is there. */
  protected void finish() {
    while (tasks != null) {
      results.add(run(tasks));
      tasks = ask(results.deepCopy());
    }
  }

  /** The results of tasks, in order. */
  private static ArrayNode run(Table tasks) {
    LogicalPlan relation = DataSourceV2Relation$.MODULE$.create(tasks, (scala.Option) scala.Option.empty(), (scala.Option) scala.Option.empty());
    ArrayNode out = Json.array();
    for (Row row : Dataset$.MODULE$.ofRows(Session.active(), relation).collectAsList()) out.add(Base64.getEncoder().encodeToString((byte[]) row.get(0)));
    return out;
  }
}
