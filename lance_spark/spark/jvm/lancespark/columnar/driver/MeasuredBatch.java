package lancespark.columnar.driver;

import lancespark.source.DriverBatch;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

class MeasuredBatch extends DriverBatch {
  private final MeasuredWrite write;

  MeasuredBatch(MeasuredWrite write, BatchWrite inner) {
    super(inner);
    this.write = write;
  }

  public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) { return ColumnarMode.writers(inner.createBatchWriterFactory(info), info.numPartitions()); }

  public void commit(WriterCommitMessage[] messages) {
    inner.commit(messages);
    for (int i = 0; i < messages.length; i++) write.add(messages[i]);
  }
}
