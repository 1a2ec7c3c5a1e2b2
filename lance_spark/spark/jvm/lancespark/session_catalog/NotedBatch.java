package lancespark.session_catalog;

import lancespark.source.DriverBatch;
import lancespark.table.LanceTable;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

class NotedBatch extends DriverBatch {
  private final LanceTable table;
  private final boolean changesColumns;

  NotedBatch(BatchWrite inner, LanceTable table, boolean changesColumns) {
    super(inner);
    this.table = table;
    this.changesColumns = changesColumns;
  }

  public void commit(WriterCommitMessage[] messages) {
    inner.commit(messages);
    table.noteCommit(changesColumns);
  }
}
