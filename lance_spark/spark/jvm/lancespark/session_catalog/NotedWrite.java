package lancespark.session_catalog;

import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.Write;

/** A write whose commit is noted in the entry of the table: that the table is missing afterwards is an error. */
class NotedWrite implements Write {
  private final Write inner;
  private final Identifier id;
  private final boolean changesColumns;

  NotedWrite(Write inner, Identifier id, boolean changesColumns) {
    this.inner = inner;
    this.id = id;
    this.changesColumns = changesColumns;
  }

  public String description() { return inner.description(); }
  public String toString() { return inner.toString(); }
  public BatchWrite toBatch() { return new NotedBatch(inner.toBatch(), id, changesColumns); }
  public CustomMetric[] supportedCustomMetrics() { return inner.supportedCustomMetrics(); }
  public CustomTaskMetric[] reportDriverMetrics() { return inner.reportDriverMetrics(); }
}
