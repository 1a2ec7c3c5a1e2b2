package lancespark.source;

import org.apache.spark.sql.connector.write.*;

/** The batch of a DriverWrite. */
public final class DriverBatch implements BatchWrite {
  private final DriverWrite write;
  private final BatchWrite inner;

  DriverBatch(DriverWrite write, BatchWrite inner) {
    this.write = write;
    this.inner = inner;
  }

  /** Spark's batch inside of those of DriverWrites. */
  public static BatchWrite sparks(BatchWrite batch) {
    while (batch instanceof DriverBatch) batch = ((DriverBatch) batch).inner;
    return batch;
  }

  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) { return write.factory(inner, info); }
  public boolean useCommitCoordinator() { return inner.useCommitCoordinator(); }
  public void onDataWriterCommit(WriterCommitMessage message) { inner.onDataWriterCommit(message); }
  public void commit(WriterCommitMessage[] messages) { write.commit(inner, messages); }
  public void abort(WriterCommitMessage[] messages) { inner.abort(messages); }
}
