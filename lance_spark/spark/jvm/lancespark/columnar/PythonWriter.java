package lancespark.columnar;

import java.io.IOException;
import java.util.Iterator;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;
import scala.jdk.javaapi.CollectionConverters;

/** Writes the rows of one partition with a Python worker, in batches whose size is known without computing it for each row. */
@SuppressWarnings({"rawtypes", "unchecked"})
final class PythonWriter implements DataWriter {
  private final PythonTask worker;
  private final StructType few;
  private final boolean areChanges;
  private WriterCommitMessage message;
  private boolean isStarted = false;

  /** `few` is the schema of rows which the process that commits writes if they are few; null if the worker writes all. They may be delta rows. */
  PythonWriter(PythonTask worker, StructType few, boolean areChanges) {
    this.worker = worker;
    this.few = few;
    this.areChanges = areChanges;
  }

  public void writeAll(Iterator rows) {
    try {
      if (few != null) {
        FewRows first = new FewRows(rows);
        if (first.areAll()) {
          message = first.message(few, areChanges);
          return;
        }
        rows = first.iterator();
      }
      isStarted = true;
      TaskContext task = TaskContext.get();
      scala.collection.Iterator answers = worker.start(CollectionConverters.asScala(new RowParts(rows, task, worker.takeBatchBytes())), task);
      while (answers.hasNext()) {
        ColumnarBatch answer = (ColumnarBatch) answers.next();
        for (int i = 0; i < answer.numRows(); i++) receive(answer.column(0).getChild(0).getBinary(i));
      }
    } catch (Exception e) {
      // Errors of Spark's runner are checked exceptions that Scala does not declare; rethrow them unchanged.
      Platform.throwException(e);
    }
    if (message == null) throw new IllegalStateException("the Python worker sent no commit message");
  }

  private void receive(byte[] pickled) {
    if (message != null) throw new IllegalStateException("the Python worker sent more than one commit message");
    message = new PythonWriterCommitMessage(pickled);
  }

  public void write(Object row) { throw new UnsupportedOperationException("rows are written all at once"); }
  public WriterCommitMessage commit() { return message; }

  /** Spark keeps the values of the tasks before for a worker that has not started. */
  public CustomTaskMetric[] currentMetricsValues() {
    if (!isStarted) return new CustomTaskMetric[0];
    try {
      return worker.metrics();
    } catch (Exception e) {
      return new CustomTaskMetric[0];
    }
  }

  public void abort() {}
  public void close() throws IOException {}
}
