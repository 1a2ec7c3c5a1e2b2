package lancespark.source;

import org.apache.spark.sql.connector.write.*;

/** A batch that stays on the driver and has a commit of its own. Executors get Spark's own factory, so that they need no class of this package. */
public abstract class DriverBatch implements BatchWrite {
  public final BatchWrite inner;

  public DriverBatch(BatchWrite inner) { this.inner = inner; }

  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) { return inner.createBatchWriterFactory(info); }
  public boolean useCommitCoordinator() { return inner.useCommitCoordinator(); }
  public void onDataWriterCommit(WriterCommitMessage message) { inner.onDataWriterCommit(message); }
  public void abort(WriterCommitMessage[] messages) { inner.abort(messages); }
}
