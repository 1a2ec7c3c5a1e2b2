package lancespark.session_catalog;

import org.apache.spark.sql.connector.catalog.*;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.write.*;

/** A write whose commit replaces the table. */
class ReplacingWrite implements WriteBuilder, SupportsTruncate, Write {
  private final ReplacedTable table;
  private final Write inner;

  ReplacingWrite(ReplacedTable table, LogicalWriteInfo info) {
    this.table = table;
    this.inner = table.write(info);
  }

  public WriteBuilder truncate() { return this; }
  public Write build() { return this; }
  public String description() { return inner.description(); }
  public String toString() { return inner.toString(); }
  public CustomMetric[] supportedCustomMetrics() { return inner.supportedCustomMetrics(); }
  public BatchWrite toBatch() { return new ReplacingBatch(table, inner.toBatch()); }
}
