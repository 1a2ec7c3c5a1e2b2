package lancespark.columnar.driver;

import java.util.*;
import lancespark.columnar.TaskValue;
import lancespark.columnar.WorkerReport;
import lancespark.metrics.CountMetric;
import lancespark.metrics.SizeMetric;
import lancespark.metrics.TimeMetric;
import lancespark.scan.TaskSize;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** The metrics of lance scans and writes that Spark's UI shows. */
@SuppressWarnings({"rawtypes", "unchecked"})
class Metrics {
  private static final String SKIPPED = "lanceSkipped";
  /** In the order of the message Written. */
  static final String[] WRITTEN = {
    "lanceFiles", "lanceBytes", "lanceRows", "lanceStoreTime", "lanceEncodingTime", "lanceDeleted", "lanceUpdated", "lanceInserted"
  };
  private static final int OF_ROW_LEVEL = 3;

  /** True if Spark's listener, which finds the classes by name, finds those of this planner. Otherwise it would show no value. */
  static boolean areShown() {
    try {
      ClassLoader listener = Thread.currentThread().getContextClassLoader();
      return Class.forName(CountMetric.class.getName(), false, listener) == CountMetric.class;
    } catch (ClassNotFoundException e) {
      return false;
    }
  }

  /** Spark's metrics of a scan, what planning has skipped, and what tasks report if they do. */
  static CustomMetric[] ofScan(CustomMetric[] sparks, boolean isPartitioned, boolean hasLog, boolean reports) {
    if (!areShown()) return sparks;
    List all = new ArrayList(Arrays.asList(sparks));
    all.add(new CountMetric(SKIPPED, isPartitioned ? "partitions skipped" : "fragments skipped"));
    String[] names = WorkerReport.NAMES;
    CustomMetric[] reported = {
      new CountMetric(names[0], "rows selected"),
      new SizeMetric(names[1], "bytes read"), new SizeMetric(names[2], "bytes of the files"),
      new CountMetric(names[3], "pages read"), new CountMetric(names[4], "pages of the columns"),
      new TimeMetric(names[5], "time waiting for the store"), new TimeMetric(names[6], "time decoding")
    };
    if (reports) all.addAll(Arrays.asList(reported));
    if (reports && hasLog) all.add(new CountMetric(names[7], "rows of the write-ahead log"));
    return (CustomMetric[]) all.toArray(new CustomMetric[0]);
  }

  /** What planning has skipped; `partition` is any pickled partition of the scan. */
  static CustomTaskMetric[] skipped(byte[] partition) {
    TaskSize size = TaskSize.of(partition);
    if (size == null || !areShown()) return new CustomTaskMetric[0];
    return new CustomTaskMetric[] { new TaskValue(SKIPPED, size.tables > 0 ? size.tables - size.tablesRead : size.skipped) };
  }

  /** Spark's metrics of a write, and those that the driver reports after the commit. */
  static CustomMetric[] ofWrite(CustomMetric[] sparks, boolean isRowLevel) {
    if (!areShown()) return sparks;
    CustomMetric[] own = {
      new CountMetric(WRITTEN[0], "files written"), new SizeMetric(WRITTEN[1], "bytes written"), new CountMetric(WRITTEN[2], "rows written"),
      new TimeMetric(WRITTEN[3], "time waiting for the store"), new TimeMetric(WRITTEN[4], "time encoding"),
      new CountMetric(WRITTEN[5], "rows deleted"), new CountMetric(WRITTEN[6], "rows updated"), new CountMetric(WRITTEN[7], "rows inserted")
    };
    List all = new ArrayList(Arrays.asList(sparks));
    all.addAll(Arrays.asList(own).subList(0, isRowLevel ? own.length : own.length - OF_ROW_LEVEL));
    return (CustomMetric[]) all.toArray(new CustomMetric[0]);
  }
}
