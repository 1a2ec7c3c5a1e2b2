package lancespark.columnar.driver;

import lancespark.columnar.TaskValue;
import lancespark.protocol.Message;
import lancespark.protocol.Protocol;
import lancespark.table.RowLevelWrite;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;

/** A write with metrics: what its tasks have written, from their commit messages. It stays on the driver. */
class MeasuredWrite implements Write {
  private final Write inner;
  private final boolean isRowLevel;
  private final long[] written = new long[Metrics.WRITTEN.length];

  MeasuredWrite(Write inner) {
    this.inner = inner;
    this.isRowLevel = inner instanceof RowLevelWrite;
  }

  public String description() { return inner.description(); }
  public String toString() { return inner.toString(); }
  public BatchWrite toBatch() { return new MeasuredBatch(this, inner.toBatch()); }
  public CustomMetric[] supportedCustomMetrics() { return Metrics.ofWrite(inner.supportedCustomMetrics(), isRowLevel); }

  public CustomTaskMetric[] reportDriverMetrics() {
    CustomMetric[] shown = Metrics.ofWrite(new CustomMetric[0], isRowLevel);
    CustomTaskMetric[] values = new CustomTaskMetric[shown.length];
    for (int i = 0; i < values.length; i++) values[i] = new TaskValue(shown[i].name(), written[i]);
    return values;
  }

  /** Adds what a task has written. */
  void add(WriterCommitMessage message) {
    if (!(message instanceof PythonWriterCommitMessage)) return;
    byte[] pickle = ((PythonWriterCommitMessage) message).pickledMessage();
    Message header = Message.header(pickle, Protocol.WRITTEN);
    if (header == null) header = Message.header(pickle, Protocol.FEW);
    for (int i = 0; header != null && i < written.length; i++) written[i] += header.integer();
  }
}
