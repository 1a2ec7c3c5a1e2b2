package lancespark.session_catalog;

import lancespark.core.HandOver;
import lancespark.table.LanceTable;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/** A write of rows whose commits are noted in the entry of the table, with its metrics. */
class NotedWrite implements Write {
  private final Write rows, measured;
  private final LanceTable table;
  private final boolean changesColumns;

  NotedWrite(Write rows, LanceTable table, boolean changesColumns) {
    this.rows = rows;
    this.measured = HandOver.ofWrites().measured(rows);
    this.table = table;
    this.changesColumns = changesColumns;
  }

  public String description() { return measured.description(); }
  public String toString() { return measured.toString(); }
  public BatchWrite toBatch() { return new NotedBatch(measured.toBatch(), table, changesColumns); }
  public StreamingWrite toStreaming() { return new NotedStream(rows.toStreaming(), table, changesColumns); }
  public CustomMetric[] supportedCustomMetrics() { return measured.supportedCustomMetrics(); }
  public CustomTaskMetric[] reportDriverMetrics() { return measured.reportDriverMetrics(); }
}
