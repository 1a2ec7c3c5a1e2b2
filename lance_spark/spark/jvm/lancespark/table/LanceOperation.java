package lancespark.table;

import lancespark.core.Session;
import lancespark.protocol.Names;
import lancespark.scan.ColumnsBuilder;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Tells Spark how DELETE, UPDATE and MERGE INTO are rewritten for a lance table: as delta rows that refer to rows by their addresses. */
public class LanceOperation implements SupportsDelta, RowLevelOperationBuilder {
  public final LanceTable table;
  private final RowLevelOperationInfo info;

  LanceOperation(LanceTable table, RowLevelOperationInfo info) {
    this.table = table;
    this.info = info;
  }

  /** Refuses a column that Spark would take for the row address, or for the operation in the delta rows. */
  static void checkNames(RowLevelOperation.Command command, String[] names) {
    boolean isCaseSensitive = Boolean.parseBoolean(Session.setting("spark.sql.caseSensitive", "false"));
    for (int i = 0; i < names.length; i++) {
      boolean isAddress = !isCaseSensitive && names[i].equalsIgnoreCase(Names.ROW_ADDRESS) && !names[i].equals(Names.ROW_ADDRESS);
      boolean isOperation = command != RowLevelOperation.Command.DELETE && names[i].equals(Names.ROW_OPERATION);
      if (!isAddress && !isOperation) continue;
      throw new UnsupportedOperationException(command + " cannot change a table with the column '" + names[i] + "', because Spark takes it for "
          + (isAddress ? "the metadata column _rowaddr. Set spark.sql.caseSensitive to true" : "a column of its own. Rename it with alter_columns of Dataset"));
    }
  }

  public RowLevelOperation build() { return this; }
  public RowLevelOperation.Command command() { return info.command(); }
  public String description() { return "lance " + command(); }
  /** Scans the rows of the table: those of its write-ahead log cannot be changed. */
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    ColumnsBuilder builder = (ColumnsBuilder) table.newScanBuilder(options);
    builder.request.changesRows = true;
    return builder;
  }

  public NamedReference[] rowId() { return new NamedReference[] { Expressions.column(Names.ROW_ADDRESS) }; }
  public NamedReference[] requiredMetadataAttributes() { return new NamedReference[0]; }
  public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) { return new UnplannedDelta(this); }
}
