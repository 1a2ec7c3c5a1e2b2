package lancespark.session_catalog;

import lancespark.table.LanceTable;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

class NotedStream implements StreamingWrite {
  private final StreamingWrite inner;
  private final LanceTable table;
  private final boolean changesColumns;

  NotedStream(StreamingWrite inner, LanceTable table, boolean changesColumns) {
    this.inner = inner;
    this.table = table;
    this.changesColumns = changesColumns;
  }

  public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) { return inner.createStreamingWriterFactory(info); }
  public boolean useCommitCoordinator() { return inner.useCommitCoordinator(); }
  public void abort(long epoch, WriterCommitMessage[] messages) { inner.abort(epoch, messages); }

  public void commit(long epoch, WriterCommitMessage[] messages) {
    inner.commit(epoch, messages);
    table.noteCommit(changesColumns);
  }
}
