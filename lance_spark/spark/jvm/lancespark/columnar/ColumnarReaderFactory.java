package lancespark.columnar;

import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/** Reads the partitions of a Python source as batches of columns, where Spark's own factory makes rows of them. Executors load this class. */
@SuppressWarnings({"rawtypes", "unchecked", "serial"})
public final class ColumnarReaderFactory implements PartitionReaderFactory {
  private final PartitionReaderFactory inner;
  private final StructType schema;
  private final long limit;

  /** `limit` is that of WorkerReport. */
  public ColumnarReaderFactory(PartitionReaderFactory inner, StructType schema, long limit) {
    this.inner = inner;
    this.schema = schema;
    this.limit = limit;
  }

  /** Why columns of `schema` cannot be handed over; null if they can. */
  public static String obstacle(StructType schema) {
    if (schema.fields().length == 0) return "the scan has no columns";
    return FlatVectors.unsupported(schema);
  }

  /** The schema of what workers send for batches of `schema`. */
  public static StructType sent(StructType schema) { return FlatVectors.sent(schema); }

  public PartitionReader createReader(InputPartition partition) { return inner.createReader(partition); }
  public boolean supportColumnarReads(InputPartition partition) { return true; }

  public PartitionReader createColumnarReader(InputPartition partition) {
    try {
      WorkerReport report = new WorkerReport(limit);
      return new ColumnarReader(new PythonBatches(report.from(inner), partition), schema, report);
    } catch (Exception e) {
      // Errors of Spark's runner are checked exceptions that Scala does not declare; rethrow them unchanged.
      Platform.throwException(e);
      return null;
    }
  }
}
