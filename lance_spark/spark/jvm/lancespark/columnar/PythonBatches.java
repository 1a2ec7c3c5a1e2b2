package lancespark.columnar;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * The batches that a Python worker sends for one partition.
 *
 * Spark's factory for Python sources starts a runner and makes rows of its batches. This class starts the same runner and gives out the batches.
 */
@SuppressWarnings("rawtypes")
final class PythonBatches {
  private static final String FIELDS = "org$apache$spark$sql$execution$datasources$v2$python$PythonPartitionReaderFactory$$";

  private final Object input;
  private final PythonTask worker;
  private scala.collection.Iterator batches;

  PythonBatches(PartitionReaderFactory factory, InputPartition partition) throws Exception {
    input = row(row(PythonTask.call(partition, "pickedPartition", PythonTask.NONE)));
    Object[] ids = { field(factory, "jobArtifactUUID") };
    if (hasField(factory, "sessionUUID")) ids = new Object[] { ids[0], field(factory, "sessionUUID") };
    Object source = field(factory, "source"), function = field(factory, "pickledReadFunc"), output = field(factory, "outputSchema");
    worker = new PythonTask(source, function, "read_from_data_source", PythonTask.schema("readInputSchema"), output, ids);
  }

  /** Starts the worker, which the runner stops when the task ends. */
  void start(TaskContext task) throws Exception { batches = worker.start(single(single(input)), task); }

  boolean hasNext() { return batches.hasNext(); }

  /** A batch with one struct column, whose fields are the columns. Its memory is the runner's, which reuses it. */
  ColumnarBatch next() { return (ColumnarBatch) batches.next(); }

  CustomTaskMetric[] metrics() throws Exception { return worker.metrics(); }

  /** A factory like this one, with another source. */
  static PartitionReaderFactory withSource(PartitionReaderFactory factory, Object source) throws Exception {
    Constructor constructor = factory.getClass().getConstructors()[0];
    Object[] all = { source, field(factory, "pickledReadFunc"), field(factory, "outputSchema"), field(factory, "jobArtifactUUID"),
      hasField(factory, "sessionUUID") ? field(factory, "sessionUUID") : null };
    return (PartitionReaderFactory) constructor.newInstance(java.util.Arrays.copyOf(all, constructor.getParameterTypes().length));
  }

  private static scala.collection.Iterator single(Object item) { return scala.collection.Iterator$.MODULE$.single(item); }

  private static Object row(Object value) throws Exception {
    Constructor constructor = Class.forName("org.apache.spark.sql.catalyst.expressions.GenericInternalRow").getConstructor(new Class[] { Object[].class });
    return constructor.newInstance(new Object[] { new Object[] { value } });
  }

  static Object field(Object factory, String name) throws Exception { return factory.getClass().getField(FIELDS + name).get(factory); }

  private static boolean hasField(Object factory, String name) {
    Field[] all = factory.getClass().getFields();
    for (int i = 0; i < all.length; i++) if (all[i].getName().equals(FIELDS + name)) return true;
    return false;
  }
}
