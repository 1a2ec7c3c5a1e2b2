package lancespark.core;

import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.types.StructType;

/** How scans and writes hand over rows, and which metrics they have: Spark's own way. ColumnarMode is the other one. */
public class HandOver {
  /** For a scan of these columns. */
  public static HandOver of(StructType schema) { return known().in(schema); }

  /** For writes. */
  public static HandOver ofWrites() { return known(); }

  private static HandOver known() {
    Object columnar = Plugins.hook(HandOver.class);
    return columnar == null ? new HandOver() : (HandOver) columnar;
  }

  public HandOver in(StructType schema) { return this; }
  public boolean isColumnar() { return false; }

  /** The schema of what tasks return for rows of `schema`. */
  public StructType sent(StructType schema) { return schema; }

  /** True if tasks report what they have read. */
  public boolean reports() { return false; }

  /** What explain shows. */
  public String shown() { return "false (" + Features.complaint("columnar") + ")"; }

  /** The factory for executors, to be called where Spark runs the query. Spark may stop to read a partition after `limit` rows; -1 for none. */
  public PartitionReaderFactory factory(PartitionReaderFactory rows, long limit) { return rows; }

  /** The metrics of a scan: `sparks` and others. */
  public CustomMetric[] metrics(CustomMetric[] sparks, boolean isPartitioned, boolean hasLog) { return sparks; }

  /** What planning has skipped; `partition` is any pickled partition of the scan. */
  public CustomTaskMetric[] skipped(byte[] partition) { return new CustomTaskMetric[0]; }

  /** The write with metrics, whose tasks may get their rows faster. */
  public Write measured(Write write) { return write; }
}
