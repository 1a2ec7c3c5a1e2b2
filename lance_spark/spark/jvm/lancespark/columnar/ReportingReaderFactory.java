package lancespark.columnar;

import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/** Reads the partitions of a Python source as rows, with the reports of the workers. Executors load this class. */
@SuppressWarnings({"rawtypes", "unchecked", "serial"})
public final class ReportingReaderFactory implements PartitionReaderFactory {
  private final PartitionReaderFactory inner;
  private final StructType schema;
  private final long limit;

  /** `limit` is that of WorkerReport. */
  public ReportingReaderFactory(PartitionReaderFactory inner, StructType schema, long limit) {
    this.inner = inner;
    this.schema = schema;
    this.limit = limit;
  }

  public PartitionReader createReader(InputPartition partition) {
    try {
      WorkerReport report = new WorkerReport(limit);
      return new ReportingReader(new PythonBatches(report.from(inner), partition), schema, report);
    } catch (Exception e) {
      Platform.throwException(e);
      return null;
    }
  }
}
