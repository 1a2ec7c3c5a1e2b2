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
final class ColumnarReader implements PartitionReader, TaskCompletionListener {
  private static final int LONGEST_WAIT_S = 10;
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
    FlatVector[] columns = FlatVectors.fields((StructVector) taken.arrays(), schema, received.numRows(), "", taken);
    for (int i = 0; i < columns.length; i++) columns[i].asColumn();
    batch = new ColumnarBatch(columns, received.numRows());
    report.count(received.numRows());
    return true;
  }

  public Object get() { return batch; }

  public CustomTaskMetric[] currentMetricsValues() {
    try {
      return report.with(worker.metrics());
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
