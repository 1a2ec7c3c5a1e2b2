package lancespark.metrics;

import java.util.Arrays;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.util.MetricUtils;

/**
 * A metric of a scan or a write. Spark's listener finds the class by its name and makes an object without arguments, so there is a class for each
 * kind of value, and they are where Spark's class loader finds them.
 */
@SuppressWarnings("cast")
public abstract class LanceMetric implements CustomMetric {
  private final String kind, name, description;

  /** `kind` is Spark's name for the kind of value. */
  public LanceMetric(String kind, String name, String description) {
    this.kind = kind;
    this.name = name;
    this.description = description;
  }

  public String name() { return name; }
  public String description() { return description; }

  /** The sum, and the distribution over the tasks if there are several with a value. Spark's own text would name the driver as the largest task. */
  public String aggregateTaskMetrics(long[] values) {
    long sum = 0;
    int zeros = 0;
    long[] sorted = (long[]) values.clone();
    Arrays.sort(sorted);
    for (int i = 0; i < sorted.length; i++) {
      if (sorted[i] <= 0) zeros++;
      else sum += sorted[i];
    }
    int some = sorted.length - zeros;
    if (kind.equals("sum") || some < 2) return text(sum);
    String spread = text(sorted[zeros]) + ", " + text(sorted[zeros + some / 2]) + ", " + text(sorted[sorted.length - 1]);
    return "total (min, med, max)\n" + text(sum) + " (" + spread + ")";
  }

  private String text(long value) { return MetricUtils.stringValue(kind, new long[] { value }, new long[0]); }
}
