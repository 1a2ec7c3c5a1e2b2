package lancespark.session_catalog;

import lancespark.source.DriverWrite;
import org.apache.spark.sql.connector.write.*;

/** A write whose commit replaces the table. */
class ReplacingWrite extends DriverWrite implements WriteBuilder, SupportsTruncate {
  private final ReplacedTable table;

  ReplacingWrite(ReplacedTable table, LogicalWriteInfo info) {
    super(table.write(info));
    this.table = table;
  }

  public WriteBuilder truncate() { return this; }
  public Write build() { return this; }
  public void commit(BatchWrite batch, WriterCommitMessage[] messages) { table.commit(batch, messages); }
}
