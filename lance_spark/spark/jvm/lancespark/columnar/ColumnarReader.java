package lancespark.columnar;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.arrow.vector.complex.StructVector;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.TaskCompletionListener;

/** The batches of one partition. As Spark's interface says, a batch is valid until the next one is asked for. */
@SuppressWarnings("rawtypes")
final class ColumnarReader implements PartitionReader, TaskCompletionListener {
  private static final int LONGEST_WAIT_S = 10;
  /** Spark's metric of the rows from the worker, which counts one for each batch. */
  private static final String ROWS = "pythonNumRowsReceived";
  private final StructType schema;
  private final PythonBatches worker;
  private final WorkerReport report;
  private final TaskMemory memory;
  /** Held while a batch is received. */
  private final ReentrantLock receiving = new ReentrantLock();
  private ColumnarBatch batch;
  private volatile boolean isTaskOver = false;

  ColumnarReader(PythonBatches worker, StructType schema, WorkerReport report) throws Exception {
    this.schema = schema;
    this.worker = worker;
    this.report = report;
    TaskContext task = TaskContext.get();
    // Listeners run in reverse order: the runner's, which stops the worker, must run before the memory is freed.
    memory = new TaskMemory(task);
    memory.closeAfter(this);
    worker.start(task);
    task.addTaskCompletionListener((TaskCompletionListener) this);
  }

  public boolean next() {
    memory.free();
    receiving.lock();
    try {
      return receive();
    } finally {
      receiving.unlock();
    }
  }

  private boolean receive() {
    if (isTaskOver) return false;
    if (!worker.hasNext()) {
      memory.close();
      return false;
    }
    ColumnarBatch received = worker.next();
    BatchMemory taken = memory.take(((ArrowColumnVector) received.column(0)).getValueVector());
    if (taken == null) return false;
    batch = FlatVectors.batch((StructVector) taken.arrays(), schema, taken);
    report.count(batch.numRows());
    return true;
  }

  public Object get() { return batch; }

  public CustomTaskMetric[] currentMetricsValues() {
    try {
      CustomTaskMetric[] metrics = worker.metrics();
      for (int i = 0; i < metrics.length; i++) if (metrics[i].name().equals(ROWS)) metrics[i] = new TaskValue(ROWS, report.rows());
      return report.with(metrics);
    } catch (Exception e) {
      return new CustomTaskMetric[0];
    }
  }

  public void close() {}

  /**
   * If another thread is receiving a batch, as for scripts, waits for it: the runner's listener, which runs after this one, frees the memory into
   * which it is received, and would fail the task. A task that is killed does not wait.
   */
  public void onTaskCompletion(TaskContext task) {
    boolean isAlone = false;
    try {
      isAlone = receiving.tryLock() || !task.isInterrupted() && receiving.tryLock(LONGEST_WAIT_S, TimeUnit.SECONDS);
      isTaskOver = true;
      if (isAlone && report.isDue(task)) worker.hasNext();
    } catch (Exception e) {
      // The task has its rows; only its metrics are missing.
    } finally {
      if (isAlone) receiving.unlock();
    }
  }
}
