package lancespark.table;

import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;

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
