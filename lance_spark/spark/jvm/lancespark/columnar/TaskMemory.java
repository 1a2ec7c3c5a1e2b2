package lancespark.columnar;

import java.lang.ref.Cleaner;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.ValueVector;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.util.TaskCompletionListener;

/**
 * The memory of one reader of a task: one batch at a time.
 *
 * Everything is freed when the task ends. If another thread than the task's reads the batches, as for scripts and pipelined UDFs, it may still
 * read at that time, and a freed address would crash the JVM. Then its next call frees, or the collector if it drops the reader.
 */
final class TaskMemory implements TaskCompletionListener, Runnable {
  private static final Cleaner CLEANER = Cleaner.create();
  private final BufferAllocator allocator;
  private BatchMemory batch;
  private Thread user;
  private boolean isTaskOver = false, isClosed = false;

  TaskMemory(TaskContext task) {
    allocator = ArrowUtils.rootAllocator().newChildAllocator("lance scan of task " + task.taskAttemptId(), 0, Long.MAX_VALUE);
    task.addTaskCompletionListener((TaskCompletionListener) this);
  }

  /** Frees everything after the task's end once nobody refers to the reader. */
  void closeAfter(Object reader) { CLEANER.register(reader, this); }

  /** Takes a batch from the Python runner; null if the task has ended. */
  synchronized BatchMemory take(ValueVector struct) {
    if (!isClosed) batch = new BatchMemory(struct, allocator);
    return isClosed ? null : batch;
  }

  /** Frees the batch that was taken last. The calling thread reads the next one. */
  synchronized void free() {
    user = Thread.currentThread();
    if (batch != null) batch.free();
    if (isTaskOver) close();
  }

  public synchronized void onTaskCompletion(TaskContext task) {
    isTaskOver = true;
    if (user == null || user == Thread.currentThread()) close();
  }

  public void run() { close(); }

  synchronized void close() {
    if (isClosed) return;
    isClosed = true;
    if (batch != null) batch.free();
    allocator.close();
  }
}
