package lancespark.columnar.driver;

import lancespark.core.SparkInternals;
import lancespark.protocol.Message;
import lancespark.protocol.Protocol;
import lancespark.source.DriverBatch;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatchWrite;
import org.apache.spark.unsafe.Platform;

class MeasuredBatch extends DriverBatch {
  /** The process that commits may write the rows of so many tasks, one after the other. */
  private static final int FEW_TASKS = 8;
  private final MeasuredWrite write;

  MeasuredBatch(MeasuredWrite write, BatchWrite inner) {
    super(inner);
    this.write = write;
  }

  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    DataWriterFactory factory = inner.createBatchWriterFactory(info);
    return ColumnarMode.writers(factory, info.numPartitions() <= FEW_TASKS ? few(inner) : 0);
  }

  /** What the header of the writer says of tasks that have few rows; 0 if workers write all. */
  private static long few(BatchWrite batch) {
    while (batch instanceof DriverBatch) batch = ((DriverBatch) batch).inner;
    if (!(batch instanceof PythonBatchWrite)) return 0;
    try {
      Message header = Message.header((byte[]) SparkInternals.get(batch, "pythonDataSourceWriter"), Protocol.WRITER);
      return header == null ? 0 : header.integer();
    } catch (Exception e) {
      Platform.throwException(e);
      return 0;
    }
  }

  public void commit(WriterCommitMessage[] messages) {
    inner.commit(messages);
    for (int i = 0; i < messages.length; i++) write.add(messages[i]);
  }
}
