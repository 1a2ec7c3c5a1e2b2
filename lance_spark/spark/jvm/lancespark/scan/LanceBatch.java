package lancespark.scan;

import org.apache.spark.sql.connector.expressions.*;
import org.apache.spark.sql.connector.expressions.aggregate.*;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.types.*;

/** Spark's own batch. Batches with equal requests on a relation are equal, so that Spark reuses exchanges. */
class LanceBatch implements Batch {
  final String request;
  private final LanceScan scan;
  private final Batch inner;

  LanceBatch(LanceScan scan, String request, Batch inner) {
    this.scan = scan;
    this.request = request;
    this.inner = inner;
  }

  public InputPartition[] planInputPartitions() { return inner.planInputPartitions(); }
  public PartitionReaderFactory createReaderFactory() { return scan.handOver().factory(inner.createReaderFactory(), scan.limit()); }
  public boolean equals(Object other) {
    return other instanceof LanceBatch && ((LanceBatch) other).request.equals(request) && ((LanceBatch) other).scan.readsSameTable(scan);
  }
  public int hashCode() { return request.hashCode(); }
}
