package lancespark.columnar;

import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** The value of a metric in one task, or on the driver. */
public final class TaskValue implements CustomTaskMetric {
  private final String name;
  private final long value;

  public TaskValue(String name, long value) {
    this.name = name;
    this.value = value;
  }

  public String name() { return name; }
  public long value() { return value; }
}
