package lancespark.columnar;

import lancespark.protocol.Protocol;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatchWriterFactory;
import org.apache.spark.unsafe.Platform;

/** Makes writers in the place of Spark's own factory for Python sources. Executors load this class. */
@SuppressWarnings({"rawtypes", "unchecked", "serial"})
public final class PythonWriterFactory implements DataWriterFactory {
  private final PythonBatchWriterFactory inner;
  private final long few;

  /** `few`: what the process that commits writes of tasks that have few rows, as the header of the writer says; 0 if workers write all. */
  public PythonWriterFactory(PythonBatchWriterFactory inner, long few) {
    this.inner = inner;
    this.few = few;
  }

  public DataWriter createWriter(int partition, long task) {
    try {
      Object[] ids = { inner.jobArtifactUUID() };
      if (PythonTask.has(inner, "sessionUUID")) ids = new Object[] { ids[0], PythonTask.call(inner, "sessionUUID", PythonTask.NONE) };
      Object output = PythonTask.schema("writeOutputSchema");
      PythonTask worker = new PythonTask(inner.source(), inner.pickledWriteFunc(), "write_to_data_source", inner.inputSchema(), output, ids);
      return new PythonWriter(worker, few == 0 ? null : inner.inputSchema(), few == Protocol.FEW_CHANGES);
    } catch (Exception e) {
      Platform.throwException(e);
      return null;
    }
  }
}
