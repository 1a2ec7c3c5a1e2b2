package lancespark.columnar;

import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.unsafe.Platform;

/** Makes writers in the place of Spark's own factory for Python sources. Executors load this class. */
public final class PythonWriterFactory implements DataWriterFactory {
  private final DataWriterFactory inner;

  public PythonWriterFactory(DataWriterFactory inner) { this.inner = inner; }

  public DataWriter createWriter(int partition, long task) {
    try {
      Object[] none = PythonTask.NONE, ids = { PythonTask.call(inner, "jobArtifactUUID", none) };
      if (PythonTask.has(inner, "sessionUUID")) ids = new Object[] { ids[0], PythonTask.call(inner, "sessionUUID", none) };
      Object function = PythonTask.call(inner, "pickledWriteFunc", none), input = PythonTask.call(inner, "inputSchema", none);
      Object source = PythonTask.call(inner, "source", none), output = PythonTask.schema("writeOutputSchema");
      return new PythonWriter(new PythonTask(source, function, "write_to_data_source", input, output, ids));
    } catch (Exception e) {
      Platform.throwException(e);
      return null;
    }
  }
}
