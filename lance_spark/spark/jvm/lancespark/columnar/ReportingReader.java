package lancespark.columnar;

import java.util.Collections;
import java.util.Iterator;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.TaskCompletionListener;

/** The rows of one partition, as Spark's own reader gives them, and the report of the worker. */
@SuppressWarnings("rawtypes")
final class ReportingReader implements PartitionReader, TaskCompletionListener {
  private final PythonBatches worker;
  private final WorkerReport report;
  private final StructType schema;
  private final UnsafeProjection copied;
  private Iterator rows = Collections.emptyIterator();
  private Object row;

  /** Listeners run in reverse order, so this one runs before that of the runner, which stops the worker. */
  ReportingReader(PythonBatches worker, StructType schema, WorkerReport report) throws Exception {
    this.worker = worker;
    this.schema = schema;
    this.copied = UnsafeProjection.create(schema);
    this.report = report;
    TaskContext task = TaskContext.get();
    worker.start(task);
    task.addTaskCompletionListener((TaskCompletionListener) this);
  }

  public boolean next() {
    while (!rows.hasNext()) {
      if (!worker.hasNext()) return false;
      rows = rows(worker.next());
    }
    // As in Spark's own reader: generated code reads nulls of arrays, which vectors of Arrow refuse.
    row = copied.apply((InternalRow) rows.next());
    report.count(1);
    return true;
  }

  private Iterator rows(ColumnarBatch received) {
    ColumnVector[] vectors = new ColumnVector[schema.fields().length];
    for (int i = 0; i < vectors.length; i++) vectors[i] = ((ArrowColumnVector) received.column(0)).getChild(i);
    return new ColumnarBatch(vectors, received.numRows()).rowIterator();
  }

  public Object get() { return row; }

  public CustomTaskMetric[] currentMetricsValues() {
    try {
      return report.with(worker.metrics());
    } catch (Exception e) {
      return new CustomTaskMetric[0];
    }
  }

  public void close() {}

  public void onTaskCompletion(TaskContext task) {
    try {
      if (report.isDue(task)) worker.hasNext();
    } catch (Exception e) {
      // The task has its rows; only its metrics are missing.
    }
  }
}
