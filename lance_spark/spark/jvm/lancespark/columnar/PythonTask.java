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
import java.util.concurrent.atomic.AtomicInteger;
import lancespark.protocol.Names;
import org.apache.spark.InterruptibleIterator;
import org.apache.spark.TaskContext;
import org.apache.spark.api.python.BasePythonRunner;
import org.apache.spark.api.python.ChainedPythonFunctions;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.PythonWorker;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A Python function that Spark runs over rows in a worker: Spark's own runner, with the batches of columns that the worker returns.
 *
 * It finds the runner by name, because it is not public; SparkInternals lists the names, and the driver looks for them.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
final class PythonTask {
  private static final String EXECUTION = "org.apache.spark.sql.execution.", SOURCES = EXECUTION + "datasources.v2.python.";
  private static final String RUNNER = EXECUTION + "python.MapInBatchEvaluatorFactory$MapInBatchEvaluator$$anon$1";
  private static final String ITERATOR = "org.apache.spark.api.python.BasePythonRunner$ReaderIterator";
  private static final String BYTES = "maxBytesPerBatch";
  private static final String DAEMON_FIELD = "org$apache$spark$api$python$BasePythonRunner$$daemonModule";
  private static final String SPARKS_DAEMON = "pyspark.daemon";
  /** How often in a row the daemon may fail to start until it is left alone: it may have been killed, or the machine be busy. */
  private static final int TRIES = 5;
  private static final AtomicInteger FAILURES = new AtomicInteger();
  static final Object[] NONE = new Object[0];

  private final Object source, runner;
  private final scala.collection.immutable.Map<?, ?> metrics;

  /** A pickled function of a data source, under the name that metrics and errors show. `ids` are arguments that depend on the version of Spark. */
  PythonTask(Object source, Object function, String name, Object input, Object output, Object[] ids) throws Exception {
    this.source = source;
    metrics = (scala.collection.immutable.Map<?, ?>) call(module("PythonCustomMetric$"), "pythonMetrics", NONE);
    Object[] arguments = new Object[5 + ids.length];
    System.arraycopy(new Object[] { function, name, input, output, metrics }, 0, arguments, 0, 5);
    System.arraycopy(ids, 0, arguments, 5, ids.length);
    Object evaluator = call(call(source, "createMapInBatchEvaluatorFactory", arguments), "createEvaluator", NONE);
    Constructor constructor = Class.forName(RUNNER, true, evaluator.getClass().getClassLoader()).getConstructors()[0];
    runner = constructor.newInstance(new Object[] { evaluator, new int[][] { { 0 } } });
  }

  /** Starts the worker on parts of rows: an iterator of such iterators. The runner stops the worker when the task ends. */
  scala.collection.Iterator start(scala.collection.Iterator parts, TaskContext task) throws Exception {
    InterruptibleIterator batches = started(parts, task);
    sendAtOnce(batches);
    return batches;
  }

  private InterruptibleIterator started(scala.collection.Iterator parts, TaskContext task) throws Exception {
    if (FAILURES.get() < TRIES && takesDaemon()) {
      setDaemon(Names.WORKER_DAEMON);
      try {
        InterruptibleIterator batches = compute(parts, task);
        FAILURES.set(0);
        return batches;
      } catch (Exception e) {
        if (task.isInterrupted()) throw e;
        // The executor's Python may find the package only after the worker has started.
        FAILURES.incrementAndGet();
        setDaemon(SPARKS_DAEMON);
      }
    }
    return compute(parts, task);
  }

  private InterruptibleIterator compute(scala.collection.Iterator parts, TaskContext task) throws Exception {
    return (InterruptibleIterator) call(runner, "compute", new Object[] { parts, Integer.valueOf(task.partitionId()), task });
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
  private static void sendAtOnce(InterruptibleIterator batches) throws Exception {
    Field field = Class.forName(ITERATOR, true, batches.getClass().getClassLoader()).getDeclaredField("worker");
    field.setAccessible(true);
    SocketChannel channel = ((PythonWorker) field.get(batches.delegate())).channel();
    if (channel.supportedOptions().contains(StandardSocketOptions.TCP_NODELAY)) channel.setOption(StandardSocketOptions.TCP_NODELAY, Boolean.TRUE);
  }

  /**
   * The size at which the runner ends a batch of rows for the worker, in bytes. From now on, it ends them where a part ends.
   * If the runner keeps the size under another name, it goes on to end batches itself.
   */
  long takeBatchBytes() throws Exception {
    Method get = accessor(BYTES), set = accessor(BYTES + "_$eq");
    if (get == null || set == null) return Long.MAX_VALUE;
    long bytes = ((Number) get.invoke(runner, NONE)).longValue();
    set.invoke(runner, new Object[] { Long.valueOf(Integer.MAX_VALUE) });
    return bytes;
  }

  /** A getter or setter of the runner. Before its name, there is that of a class which depends on the version. */
  private Method accessor(String end) {
    Method[] all = runner.getClass().getMethods();
    for (int i = 0; i < all.length; i++) if (all[i].getName().endsWith(end)) return all[i];
    return null;
  }

  /** The worker's metrics, of which Spark has the values in SQLMetrics. */
  CustomTaskMetric[] metrics() throws Exception {
    Map values = new HashMap();
    for (Map.Entry entry : CollectionConverters.asJava(metrics).entrySet()) {
      values.put(entry.getKey(), call(entry.getValue(), "value", NONE));
    }
    Object[] arguments = { scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(values)) };
    return (CustomTaskMetric[]) call(source, "createPythonTaskMetrics", arguments);
  }

  /** Spark's schema of the input or output of functions. */
  static Object schema(String name) throws Exception { return call(module("UserDefinedPythonDataSource$"), name, NONE); }

  private static Object module(String name) throws Exception { return Class.forName(SOURCES + name).getField("MODULE$").get(null); }

  static boolean has(Object target, String name) {
    Method[] all = target.getClass().getMethods();
    for (int i = 0; i < all.length; i++) if (all[i].getName().equals(name)) return true;
    return false;
  }

  static Object call(Object target, String name, Object[] arguments) throws Exception {
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
