package lancespark.source;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.*;

/** A write of Spark's with a commit of its own, or another factory of writers. It stays on the driver. */
public abstract class DriverWrite implements Write {
  protected final Write inner;

  protected DriverWrite(Write inner) { this.inner = inner; }

  public String description() { return inner.description(); }
  public String toString() { return inner.toString(); }
  public CustomMetric[] supportedCustomMetrics() { return inner.supportedCustomMetrics(); }
  public CustomTaskMetric[] reportDriverMetrics() { return inner.reportDriverMetrics(); }
  public BatchWrite toBatch() { return new DriverBatch(this, inner.toBatch()); }

  /** Executors get Spark's own, so that they need no class of the driver. */
  public DataWriterFactory factory(BatchWrite batch, PhysicalWriteInfo info) { return batch.createBatchWriterFactory(info); }

  public abstract void commit(BatchWrite batch, WriterCommitMessage[] messages);
}
