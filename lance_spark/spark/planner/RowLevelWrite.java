package lancespark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWrite;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The write of a row-level command: Spark's write to a Python source, which gets the command as an option. It stays on the driver. */
class RowLevelWrite implements Write {
  /** Python takes the command from this option. See lance_spark.spark.row_level. */
  private static final String OPTION = "__lance_command";
  final LanceTable table;
  final Map options;
  final ObjectNode command;
  private final Write inner;

  RowLevelWrite(LanceTable table, Source source, ObjectNode command, StructType rows) {
    this.table = table;
    this.options = SessionEntry.withoutLost(source.options.asCaseSensitiveMap());
    this.command = command.put("statement", UUID.randomUUID().toString());
    Map all = new HashMap(options);
    all.put(OPTION, PlanJson.text(command));
    LogicalWriteInfo info = new RowsInfo(new CaseInsensitiveStringMap(all), rows, command.get("statement").asText());
    this.inner = new PythonWrite(Source.unopened(), LancePlanner.SOURCE, info, false);
  }

  public String description() { return "lance " + command.get("kind").asText(); }
  public String toString() { return description(); }
  public BatchWrite toBatch() { return new RowLevelBatch(this, inner.toBatch()); }
  public CustomMetric[] supportedCustomMetrics() { return inner.supportedCustomMetrics(); }

  /** Deletes all rows. There are no tasks. A name is that of the table that is there now; a view has opened a version. */
  static void truncate(LanceTable table, boolean isNamed) {
    Source source = table.source(CaseInsensitiveStringMap.empty());
    ObjectNode command = PlanJson.object().put("kind", "TRUNCATE").put("condition", "true");
    if (!isNamed) source.noteVersion(command);
    BatchWrite batch = new RowLevelWrite(table, source, command, table.schema()).toBatch();
    batch.createBatchWriterFactory(new NoRows(table.schema()));
    batch.commit(new WriterCommitMessage[0]);
  }
}

/** Remembers the command after its commit, so that its version can be found, and has the table opened again, so that the version is seen. */
class RowLevelBatch extends DriverBatch {
  private final RowLevelWrite write;

  RowLevelBatch(RowLevelWrite write, BatchWrite inner) {
    super(inner);
    this.write = write;
  }

  public void commit(WriterCommitMessage[] messages) {
    inner.commit(messages);
    LastChange.set(write);
    write.table.forgetVersion();
  }
}

/** The last row-level command of each session. */
public class LastChange {
  private static final Map last = Collections.synchronizedMap(new WeakHashMap());

  public LastChange() {}

  static void set(RowLevelWrite write) { last.put(LancePlanner.session(), write); }

  /** The command of a session as JSON; null if it had none. */
  public String command(SparkSession session) {
    RowLevelWrite write = (RowLevelWrite) last.get(session);
    return write == null ? null : PlanJson.text(write.command);
  }

  /** The options of the command's table. */
  public Map options(SparkSession session) { return ((RowLevelWrite) last.get(session)).options; }
}
