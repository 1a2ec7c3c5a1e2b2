package lancespark;

import java.util.*;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Tells Spark how DELETE, UPDATE and MERGE INTO are rewritten for a lance table: as delta rows that refer to rows by their addresses. */
class LanceOperation implements SupportsDelta, RowLevelOperationBuilder {
  final LanceTable table;
  private final RowLevelOperationInfo info;

  LanceOperation(LanceTable table, RowLevelOperationInfo info) {
    this.table = table;
    this.info = info;
  }

  public RowLevelOperation build() { return this; }
  public RowLevelOperation.Command command() { return info.command(); }
  public String description() { return "lance " + command(); }
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) { return table.newScanBuilder(options); }
  public NamedReference[] rowId() { return new NamedReference[] { Expressions.column(MetadataColumns.ADDRESS) }; }
  public NamedReference[] requiredMetadataAttributes() { return new NamedReference[0]; }
  public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) { return new UnplannedDelta(this); }
}

/** Stands for the write until RowLevelCommands replaces it. It fails instead of writing something wrong. */
class UnplannedDelta implements DeltaWriteBuilder, DeltaWrite {
  private final LanceOperation operation;

  UnplannedDelta(LanceOperation operation) { this.operation = operation; }

  public DeltaWrite build() { return this; }
  public String description() { return operation.description(); }
  public String toString() { return description(); }
  public DeltaBatchWrite toBatch() {
    throw new UnsupportedOperationException(operation.command() + " on a lance table needs the optimizer rule lance_spark.RowLevelCommands, which is "
        + "excluded (spark.sql.optimizer.excludedRules) or does not support this version of Spark; nothing was changed");
  }
}
