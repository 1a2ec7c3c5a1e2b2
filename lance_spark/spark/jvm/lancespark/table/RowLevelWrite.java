package lancespark.table;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.protocol.Instructions;
import lancespark.protocol.Json;
import lancespark.protocol.Names;
import lancespark.source.DriverWrite;
import lancespark.source.NoRows;
import lancespark.source.RowsInfo;
import lancespark.source.Source;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWrite;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The write of a row-level command: Spark's write to a Python source, which gets the command with the options. */
@SuppressWarnings({"rawtypes", "unchecked"})
public class RowLevelWrite extends DriverWrite {
  private final LanceTable table;
  final Map options;
  final ObjectNode command;

  public RowLevelWrite(LanceTable table, Source source, ObjectNode command, StructType rows) {
    this(table, Instructions.without(source.options.asCaseSensitiveMap()), command.put("statement", UUID.randomUUID().toString()), rows);
  }

  private RowLevelWrite(LanceTable table, Map options, ObjectNode command, StructType rows) {
    super(new PythonWrite(Source.unopened(), Names.FORMAT, info(options, command, rows), false));
    this.table = table;
    this.options = options;
    this.command = command;
  }

  private static LogicalWriteInfo info(Map options, ObjectNode command, StructType rows) {
    Map all = new HashMap(options);
    Instructions.put(all, Instructions.COMMAND, command);
    return new RowsInfo(new CaseInsensitiveStringMap(all), rows, command.get("statement").asText());
  }

  /** ADD COLUMNS and UPDATE COLUMNS write values of columns. */
  private boolean changesColumns() { return command.get("kind").asText().endsWith("COLUMNS"); }

  public String description() { return "lance " + command.get("kind").asText(); }
  public String toString() { return description(); }

  /** Remembers the command, so that its version can be found, and has the table opened again, so that the version is seen. */
  public void commit(BatchWrite batch, WriterCommitMessage[] messages) {
    batch.commit(messages);
    LastChange.set(this);
    table.forgetVersion();
    table.noteCommit(changesColumns());
  }

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
