package lancespark.columnar.driver;

import lancespark.columnar.TaskValue;
import lancespark.core.SparkInternals;
import lancespark.protocol.Message;
import lancespark.protocol.Protocol;
import lancespark.source.DriverBatch;
import lancespark.source.DriverWrite;
import lancespark.table.RowLevelWrite;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatchWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;

/** A write with metrics: what its tasks have written, from their commit messages. Tasks may get their rows faster than Spark's own. */
class MeasuredWrite extends DriverWrite {
  /** The process that commits may write the rows of so many tasks, one after the other. */
  private static final int FEW_TASKS = 8;
  private final boolean isRowLevel;
  private final long[] written = new long[Metrics.WRITTEN.length];

  MeasuredWrite(Write inner) {
    super(inner);
    this.isRowLevel = inner instanceof RowLevelWrite;
  }

  public DataWriterFactory factory(BatchWrite batch, PhysicalWriteInfo info) {
    DataWriterFactory sparks = super.factory(batch, info);
    return ColumnarMode.writers(sparks, info.numPartitions() <= FEW_TASKS ? few(DriverBatch.sparks(batch)) : 0);
  }

  /** What the header of the writer says of tasks that have few rows; 0 if workers write all. */
  private static long few(BatchWrite batch) {
    if (!(batch instanceof PythonBatchWrite)) return 0;
    Message header = Message.header((byte[]) SparkInternals.get(batch, "pythonDataSourceWriter"), Protocol.WRITER);
    return header == null ? 0 : header.integer();
  }

  public void commit(BatchWrite batch, WriterCommitMessage[] messages) {
    batch.commit(messages);
    for (int i = 0; i < messages.length; i++) add(messages[i]);
  }

  public CustomMetric[] supportedCustomMetrics() { return Metrics.ofWrite(inner.supportedCustomMetrics(), isRowLevel); }

  public CustomTaskMetric[] reportDriverMetrics() {
    CustomMetric[] shown = Metrics.ofWrite(new CustomMetric[0], isRowLevel);
    CustomTaskMetric[] values = new CustomTaskMetric[shown.length];
    for (int i = 0; i < values.length; i++) values[i] = new TaskValue(shown[i].name(), written[i]);
    return values;
  }

  /** Adds what a task has written. */
  private void add(WriterCommitMessage message) {
    if (!(message instanceof PythonWriterCommitMessage)) return;
    byte[] pickle = ((PythonWriterCommitMessage) message).pickledMessage();
    Message header = Message.header(pickle, Protocol.WRITTEN);
    if (header == null) header = Message.header(pickle, Protocol.FEW);
    for (int i = 0; header != null && i < written.length; i++) written[i] += header.integer();
  }
}
