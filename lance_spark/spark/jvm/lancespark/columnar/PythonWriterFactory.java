package lancespark.columnar;

import lancespark.protocol.Marks;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatchWriterFactory;
import org.apache.spark.unsafe.Platform;

/** Makes writers in the place of Spark's own factory for Python sources. Executors load this class. */
public final class PythonWriterFactory implements DataWriterFactory {
  /** In the pickles of writers whose `commit` writes the rows of tasks that have few (lance_spark.spark.write.writer). */
  private static final byte[] FEW_ROWS_MARK = Marks.mark("LanceFewRows:"), FEW_CHANGES_MARK = Marks.mark("LanceFewRows:changes");
  private final PythonBatchWriterFactory inner;
  private final boolean hasFewTasks;

  /** `hasFewTasks`: the process that commits may write their rows, one task after the other. */
  public PythonWriterFactory(PythonBatchWriterFactory inner, boolean hasFewTasks) {
    this.inner = inner;
    this.hasFewTasks = hasFewTasks;
  }

  public DataWriter createWriter(int partition, long task) {
    try {
      Object[] ids = { inner.jobArtifactUUID() };
      if (PythonTask.has(inner, "sessionUUID")) ids = new Object[] { ids[0], PythonTask.call(inner, "sessionUUID", PythonTask.NONE) };
      Object output = PythonTask.schema("writeOutputSchema");
      PythonTask worker = new PythonTask(inner.source(), inner.pickledWriteFunc(), "write_to_data_source", inner.inputSchema(), output, ids);
      boolean mayBeFew = hasFewTasks && Marks.after(inner.pickledWriteFunc(), FEW_ROWS_MARK, 0) >= 0;
      boolean areChanges = mayBeFew && Marks.after(inner.pickledWriteFunc(), FEW_CHANGES_MARK, 0) >= 0;
      return new PythonWriter(worker, mayBeFew ? inner.inputSchema() : null, areChanges);
    } catch (Exception e) {
      Platform.throwException(e);
      return null;
    }
  }
}
