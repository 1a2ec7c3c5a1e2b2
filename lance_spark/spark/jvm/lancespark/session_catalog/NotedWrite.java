package lancespark.session_catalog;

import lancespark.core.HandOver;
import lancespark.source.DriverWrite;
import lancespark.table.LanceTable;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/** A write of rows whose commits are noted in the entry of the table, with its metrics. */
class NotedWrite extends DriverWrite {
  private final Write rows;
  private final LanceTable table;
  private final boolean changesColumns;

  NotedWrite(Write rows, LanceTable table, boolean changesColumns) {
    super(HandOver.ofWrites().measured(rows));
    this.rows = rows;
    this.table = table;
    this.changesColumns = changesColumns;
  }

  public void commit(BatchWrite batch, WriterCommitMessage[] messages) {
    batch.commit(messages);
    table.noteCommit(changesColumns);
  }

  public StreamingWrite toStreaming() { return new NotedStream(rows.toStreaming(), table, changesColumns); }
}
