package lancespark.columnar;

import java.io.IOException;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.util.TaskCompletionListener;

/** The rows of one partition from Spark's own reader, and the report of its worker. */
final class ReportingReader implements PartitionReader, TaskCompletionListener {
  private final PartitionReader inner;
  private final WorkerReport report;

  /** Listeners run in reverse order, so this one runs before that of the runner, which stops the worker. */
  ReportingReader(PartitionReader inner, WorkerReport report) {
    this.inner = inner;
    this.report = report;
    TaskContext.get().addTaskCompletionListener((TaskCompletionListener) this);
  }

  public boolean next() throws IOException { return inner.next(); }

  public Object get() {
    report.count(1);
    return inner.get();
  }

  public CustomTaskMetric[] currentMetricsValues() { return report.with(inner.currentMetricsValues()); }
  public void close() throws IOException { inner.close(); }

  public void onTaskCompletion(TaskContext task) {
    try {
      if (report.isDue(task)) inner.next();
    } catch (Exception e) {
      // The task has its rows; only its metrics are missing.
    }
  }
}
