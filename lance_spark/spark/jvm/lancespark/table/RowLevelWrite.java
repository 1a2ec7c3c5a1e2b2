package lancespark.table;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.protocol.Instructions;
import lancespark.protocol.Json;
import lancespark.protocol.Names;
import lancespark.source.NoRows;
import lancespark.source.RowsInfo;
import lancespark.source.Source;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWrite;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The write of a row-level command: Spark's write to a Python source, which gets the command with the options. It stays on the driver. */
@SuppressWarnings({"rawtypes", "unchecked"})
public class RowLevelWrite implements Write {
  final LanceTable table;
  final Map options;
  final ObjectNode command;
  private final Write inner;

  public RowLevelWrite(LanceTable table, Source source, ObjectNode command, StructType rows) {
    this.table = table;
    this.options = Instructions.without(source.options.asCaseSensitiveMap());
    this.command = command.put("statement", UUID.randomUUID().toString());
    Map all = new HashMap(options);
    Instructions.put(all, Instructions.COMMAND, command);
    LogicalWriteInfo info = new RowsInfo(new CaseInsensitiveStringMap(all), rows, command.get("statement").asText());
    this.inner = new PythonWrite(Source.unopened(), Names.FORMAT, info, false);
  }

  /** ADD COLUMNS and UPDATE COLUMNS write values of columns. */
  boolean changesColumns() { return command.get("kind").asText().endsWith("COLUMNS"); }

  public String description() { return "lance " + command.get("kind").asText(); }
  public String toString() { return description(); }
  public BatchWrite toBatch() { return new RowLevelBatch(this, inner.toBatch()); }
  public CustomMetric[] supportedCustomMetrics() { return inner.supportedCustomMetrics(); }

  /** Deletes all rows. There are no tasks. A name is that of the table that is there now; a view has opened a version. */
  static void truncate(LanceTable table, boolean isNamed) {
    Source source = table.source(CaseInsensitiveStringMap.empty());
    ObjectNode command = Json.object().put("kind", "TRUNCATE").put("condition", "true");
    if (!isNamed) source.noteVersion(command);
    BatchWrite batch = new RowLevelWrite(table, source, command, table.schema()).toBatch();
    batch.createBatchWriterFactory(new NoRows(table.schema()));
    batch.commit(new WriterCommitMessage[0]);
  }
}
