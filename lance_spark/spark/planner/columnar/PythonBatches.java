package lancespark.columnar;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.StandardSocketOptions;
import java.nio.channels.SocketChannel;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.InterruptibleIterator;
import org.apache.spark.TaskContext;
import org.apache.spark.api.python.BasePythonRunner;
import org.apache.spark.api.python.ChainedPythonFunctions;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.PythonWorker;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The batches that a Python worker sends for one partition.
 *
 * Spark's factory for Python sources starts a runner and makes rows of its batches. This class starts the same runner and gives out the batches.
 * It finds the runner by name, because it is not public; SparkInternals lists the names, and the driver looks for them.
 */
final class PythonBatches {
  private static final String EXECUTION = "org.apache.spark.sql.execution.", SOURCES = EXECUTION + "datasources.v2.python.";
  private static final String FIELDS = (SOURCES + "PythonPartitionReaderFactory$$").replace('.', '$');
  private static final Object[] NONE = new Object[0];
  private static final String RUNNER = EXECUTION + "python.MapInBatchEvaluatorFactory$MapInBatchEvaluator$$anon$1";
  private static final String ITERATOR = "org.apache.spark.api.python.BasePythonRunner$ReaderIterator";

  private static final String DAEMON_FIELD = "org$apache$spark$api$python$BasePythonRunner$$daemonModule";
  private static final String SPARKS_DAEMON = "pyspark.daemon", DAEMON = "lance_spark.spark.daemon";
  private static volatile boolean hasDaemon = true;

  private final Object source, runner, input;
  private final scala.collection.immutable.Map metrics;
  private scala.collection.Iterator batches;

  PythonBatches(PartitionReaderFactory factory, InputPartition partition) throws Exception {
    source = field(factory, "source");
    metrics = (scala.collection.immutable.Map) call(module(SOURCES + "PythonCustomMetric$"), "pythonMetrics", NONE);
    input = row(row(call(partition, "pickedPartition", NONE)));
    Object schema = call(module(SOURCES + "UserDefinedPythonDataSource$"), "readInputSchema", NONE);
    Object[] common = { field(factory, "pickledReadFunc"), "read_from_data_source", schema, field(factory, "outputSchema"), metrics,
      field(factory, "jobArtifactUUID") };
    Object[] arguments = common;
    if (hasField(factory, "sessionUUID")) {
      arguments = java.util.Arrays.copyOf(common, common.length + 1);
      arguments[common.length] = field(factory, "sessionUUID");
    }
    Object evaluator = call(call(source, "createMapInBatchEvaluatorFactory", arguments), "createEvaluator", NONE);
    Constructor constructor = Class.forName(RUNNER, true, evaluator.getClass().getClassLoader()).getConstructors()[0];
    runner = constructor.newInstance(new Object[] { evaluator, new int[][] { { 0 } } });
  }

  /** Starts the worker, which the runner stops when the task ends. */
  void start(TaskContext task) throws Exception {
    batches = started(task);
    sendAtOnce();
  }

  private scala.collection.Iterator started(TaskContext task) throws Exception {
    if (hasDaemon && takesDaemon()) {
      setDaemon(DAEMON);
      try {
        return compute(task);
      } catch (Exception e) {
        if (task.isInterrupted()) throw e;
        // The executor's Python finds the package only after the worker has started.
        hasDaemon = false;
        setDaemon(SPARKS_DAEMON);
      }
    }
    return compute(task);
  }

  private scala.collection.Iterator compute(TaskContext task) throws Exception {
    Object inputs = single(single(input));
    return (scala.collection.Iterator) call(runner, "compute", new Object[] { inputs, Integer.valueOf(task.partitionId()), task });
  }

  /**
   * True if a worker may come from the process that has imported the package already: if the session has no daemon of its own, and no Python
   * files, which may hold another version of the package.
   */
  private boolean takesDaemon() throws Exception {
    ChainedPythonFunctions functions = (ChainedPythonFunctions) ((BasePythonRunner) runner).funcs().head();
    return ((PythonFunction) functions.funcs().head()).pythonIncludes().isEmpty() && SPARKS_DAEMON.equals(daemonField().get(runner));
  }

  private void setDaemon(String module) throws Exception { daemonField().set(runner, module); }

  private static Field daemonField() throws Exception {
    Field field = BasePythonRunner.class.getDeclaredField(DAEMON_FIELD);
    field.setAccessible(true);
    return field;
  }

  /**
   * Lets the socket send the task's input at once. Spark sends it in two small parts. By default, a TCP socket holds the second part back until
   * the worker's system confirms the first one, which takes 40 ms.
   */
  private void sendAtOnce() throws Exception {
    Field field = Class.forName(ITERATOR, true, batches.getClass().getClassLoader()).getDeclaredField("worker");
    field.setAccessible(true);
    SocketChannel channel = ((PythonWorker) field.get(((InterruptibleIterator) batches).delegate())).channel();
    if (channel.supportedOptions().contains(StandardSocketOptions.TCP_NODELAY)) channel.setOption(StandardSocketOptions.TCP_NODELAY, Boolean.TRUE);
  }

  boolean hasNext() { return batches.hasNext(); }

  /** A batch with one struct column, whose fields are the columns. Its memory is the runner's, which reuses it. */
  ColumnarBatch next() { return (ColumnarBatch) batches.next(); }

  /** The worker's metrics, of which Spark has the values in SQLMetrics. */
  CustomTaskMetric[] metrics() throws Exception {
    Map values = new HashMap();
    Iterator it = CollectionConverters.asJava(metrics).entrySet().iterator();
    while (it.hasNext()) {
      Map.Entry entry = (Map.Entry) it.next();
      values.put(entry.getKey(), call(entry.getValue(), "value", NONE));
    }
    Object[] arguments = { scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(values)) };
    return (CustomTaskMetric[]) call(source, "createPythonTaskMetrics", arguments);
  }

  /** A factory like this one, with another source. */
  static PartitionReaderFactory withSource(PartitionReaderFactory factory, Object source) throws Exception {
    Constructor constructor = factory.getClass().getConstructors()[0];
    Object[] all = { source, field(factory, "pickledReadFunc"), field(factory, "outputSchema"), field(factory, "jobArtifactUUID"),
      hasField(factory, "sessionUUID") ? field(factory, "sessionUUID") : null };
    return (PartitionReaderFactory) constructor.newInstance(java.util.Arrays.copyOf(all, constructor.getParameterTypes().length));
  }

  private static Object single(Object item) { return scala.collection.Iterator$.MODULE$.single(item); }

  private static Object row(Object value) throws Exception {
    Constructor constructor = Class.forName("org.apache.spark.sql.catalyst.expressions.GenericInternalRow").getConstructor(new Class[] { Object[].class });
    return constructor.newInstance(new Object[] { new Object[] { value } });
  }

  private static Object module(String name) throws Exception { return Class.forName(name).getField("MODULE$").get(null); }
  static Object field(Object factory, String name) throws Exception { return factory.getClass().getField(FIELDS + name).get(factory); }

  private static boolean hasField(Object factory, String name) {
    Field[] all = factory.getClass().getFields();
    for (int i = 0; i < all.length; i++) if (all[i].getName().equals(FIELDS + name)) return true;
    return false;
  }

  private static Object call(Object target, String name, Object[] arguments) throws Exception {
    Method[] all = target.getClass().getMethods();
    for (int i = 0; i < all.length; i++) {
      if (!all[i].getName().equals(name) || all[i].getParameterTypes().length != arguments.length) continue;
      try {
        return all[i].invoke(target, arguments);
      } catch (InvocationTargetException e) {
        if (e.getCause() instanceof Exception) throw (Exception) e.getCause();
        throw e;
      }
    }
    throw new NoSuchMethodException(target.getClass().getName() + "." + name);
  }
}
