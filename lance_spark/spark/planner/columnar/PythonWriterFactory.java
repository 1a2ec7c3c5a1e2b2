package lancespark.columnar;

import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatchWriterFactory;
import org.apache.spark.unsafe.Platform;

/** Makes writers in the place of Spark's own factory for Python sources. Executors load this class. */
public final class PythonWriterFactory implements DataWriterFactory {
  private final PythonBatchWriterFactory inner;

  public PythonWriterFactory(PythonBatchWriterFactory inner) { this.inner = inner; }

  public DataWriter createWriter(int partition, long task) {
    try {
      Object[] ids = { inner.jobArtifactUUID() };
      if (PythonTask.has(inner, "sessionUUID")) ids = new Object[] { ids[0], PythonTask.call(inner, "sessionUUID", PythonTask.NONE) };
      Object output = PythonTask.schema("writeOutputSchema");
      return new PythonWriter(new PythonTask(inner.source(), inner.pickledWriteFunc(), "write_to_data_source", inner.inputSchema(), output, ids));
    } catch (Exception e) {
      Platform.throwException(e);
      return null;
    }
  }
}
