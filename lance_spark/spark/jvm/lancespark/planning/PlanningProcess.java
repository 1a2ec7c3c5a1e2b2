package lancespark.planning;

import java.io.*;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import lancespark.core.Session;
import lancespark.core.SparkInternals;
import lancespark.protocol.Names;
import org.apache.spark.JobArtifactSet$;
import org.apache.spark.JobArtifactState;
import org.apache.spark.SparkFiles;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.PythonWorker;
import org.apache.spark.api.python.PythonWorkerUtils$;
import org.apache.spark.api.python.SpecialLengths$;
import org.apache.spark.sql.execution.python.PythonPlannerRunner;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.util.CollectionAccumulator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A Python process on the driver that answers Spark's requests to a source: it creates it, plans reads and writes, and commits.
 *
 * Spark has one process for each kind of request. It begins with the imports that the source needs, which take longer than most requests, and ends
 * after a minute without one. These processes answer all kinds (pyspark_lance.planning), and a daemon forks them that has imported the package
 * (lance_spark.spark.planning_daemon). What is sent and received is Spark's.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
class PlanningProcess {
  private static final String UDF = "spark.sql.execution.pyspark.udf.";
  /** Settings with which Spark starts its processes or watches them in other ways. With any of them, Spark's own processes answer. */
  private static final String[] OTHERS = { "spark.python.use.daemon", "spark.python.worker.reuse", "spark.python.worker.faulthandler.enabled",
      UDF + "faulthandler.enabled", "spark.python.worker.idleTimeoutSeconds", UDF + "idleTimeoutSeconds", "spark.python.worker.killOnIdleTimeout",
      UDF + "killOnIdleTimeout", "spark.python.worker.tracebackDumpIntervalSeconds", UDF + "tracebackDumpIntervalSeconds",
      UDF + "hideTraceback.enabled", UDF + "simplifiedTraceback.enabled", UDF + "tracebackWithLocals.enabled",
      "spark.sql.planner.pythonExecution.memory", "spark.sql.pyspark.dataSource.profiler", "spark.sql.pyspark.worker.logging.enabled" };
  private static final boolean IS_WINDOWS = System.getProperty("os.name").startsWith("Windows");
  /** The Pythons of which a process has started, and those of which none does: one may lack the package, which comes with the files of a session. */
  private static final Set STARTED = ConcurrentHashMap.newKeySet(), NOT_STARTING = ConcurrentHashMap.newKeySet();

  /** What starts, or has started, a process ahead of the first request; null if none was asked for. */
  private static volatile Thread ahead = null;

  /** How often a process is started for a request, or asked it. Processes that start, wait or answer may be killed, and a busy machine may not answer in time. */
  private static final int TRIES = 5;

  /** The answer to a request; `source` is the source as a function. */
  static Object answer(Question question, PythonFunction source) {
    try {
      if (Workers.env() == null) throw new UnsupportedOperationException("the Spark session was stopped: open the lance table again in a new session");
      boolean wasAsked = false;
      for (int i = 0; i < TRIES; i++) {
        PythonPlannerRunner runner = (PythonPlannerRunner) question.request(wasAsked);
        if (!canAnswer(source)) return answerOfSpark(runner);
        Thread starting = ahead;
        if (starting != null) starting.join();  // so that this request does not start another one
        PlanningProcess process = new PlanningProcess(source);
        if (!process.start()) continue;
        wasAsked = true;
        try {
          return process.answer(runner);
        } catch (IOException e) {
          Session.LOG.warn("a Python process on the driver ended before it answered, and another one is asked", e);
        }
      }
      if (!STARTED.contains(source.pythonExec())) {
        NOT_STARTING.add(source.pythonExec());
        Session.LOG.info("Spark's own processes plan reads and writes, because another one did not start");
        return answerOfSpark((PythonPlannerRunner) question.request(false));
      }
    } catch (Exception e) {
      Platform.throwException(e);
    }
    throw new UnsupportedOperationException(TRIES + " Python processes on the driver ended before they answered a request of a lance table: they were "
        + "killed, or there is too little memory. " + question.outcome());
  }

  private static Object answerOfSpark(PythonPlannerRunner runner) {
    return runner.runInPython(runner.runInPython$default$1());
  }

  /** Starts a process that waits for the first request. If none starts, the first request tries again. */
  static synchronized void startAhead(PythonFunction source) {
    if (!canAnswer(source)) return;
    final PlanningProcess process = new PlanningProcess(source);
    ahead = new Thread("lance_spark-start") {
      public void run() {
        try {
          if (process.start()) process.end("releasePythonWorker");
        } catch (Exception e) {
          Session.LOG.debug("no Python process on the driver waits for the first request", e);
        }
      }
    };
    ahead.setDaemon(true);
    ahead.start();
  }

  private static boolean canAnswer(PythonFunction source) {
    boolean hasFilesOfClient = !source.pythonIncludes().isEmpty() && artifacts().isDefined();
    return !IS_WINDOWS && !NOT_STARTING.contains(source.pythonExec()) && !hasFilesOfClient && source.broadcastVars().isEmpty() && !isSetOtherwise();
  }

  private static boolean isSetOtherwise() {
    SQLConf settings = SQLConf$.MODULE$.get();
    for (int i = 0; i < OTHERS.length; i++) if (settings.contains(OTHERS[i])) return true;
    return false;
  }

  private final PythonFunction source;
  private final scala.Option artifacts;
  private final scala.collection.immutable.Map environment;
  private PythonWorker worker;

  private PlanningProcess(PythonFunction source) {
    this.source = source;
    artifacts = artifacts();
    Map all = new HashMap(source.envVars());
    all.put("PYTHONPATH", path(source));
    all.put("SPARK_REUSE_WORKER", "1");
    all.put("SPARK_SIMPLIFIED_TRACEBACK", "1");
    all.put("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER");
    all.put("SPARK_JOB_ARTIFACT_UUID", artifacts.isEmpty() ? "default" : artifacts.get());
    environment = scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(all));
  }

  /** The session's own folder of files, as Spark Connect has it. */
  private static scala.Option artifacts() {
    scala.Option state = JobArtifactSet$.MODULE$.getCurrentJobArtifactState();
    return state.isEmpty() ? state : (scala.Option) new scala.Some(((JobArtifactState) state.get()).uuid());
  }

  /** PYTHONPATH with the files of --py-files, since the daemon imports the package before it reads their names. */
  private static String path(PythonFunction source) {
    List files = source.pythonIncludes(), places = new ArrayList();
    for (int i = 0; i < files.size(); i++) places.add(SparkFiles.get((String) files.get(i)));
    Object given = source.envVars().get("PYTHONPATH");
    if (given != null) places.add(given);
    return String.join(File.pathSeparator, places);
  }

  /** Makes a process wait for the request. False if it does not start. An interrupted thread, whose query was cancelled, starts none. */
  private boolean start() throws Exception {
    try {
      Object started = Workers.call("createPythonWorker", scala.Tuple2.class, new Object[] { source.pythonExec(), Names.PLANNING_MODULE, Names.PLANNING_DAEMON, environment, Boolean.TRUE });
      worker = (PythonWorker) ((scala.Tuple2) started)._1();
    } catch (Exception e) {
      if (e instanceof InterruptedException || Thread.currentThread().isInterrupted()) throw e;
      if (STARTED.contains(source.pythonExec())) Session.LOG.warn("a Python process on the driver did not start", e);
      else Session.LOG.info("a Python process on the driver did not start", e);
      return false;
    }
    STARTED.add(source.pythonExec());
    return true;
  }

  /** Gives the process back, so that another request gets it, or ends it. */
  private void end(String how) throws Exception {
    Workers.call(how, void.class, new Object[] { source.pythonExec(), Names.PLANNING_MODULE, Names.PLANNING_DAEMON, environment, worker });
  }

  /** Sends a request and receives its answer. The process ends if the answer is an error, as Spark's does. */
  private Object answer(PythonPlannerRunner runner) throws Exception {
    boolean isReleased = false;
    try {
      DataInputStream in = new DataInputStream(new BufferedInputStream(new Exchange(worker, request(runner))));
      Object answer = runner.receiveFromPython(in);
      receiveAccumulators(in);
      if (in.readInt() == SpecialLengths$.MODULE$.END_OF_STREAM()) {
        end("releasePythonWorker");
        isReleased = true;
      }
      return answer;
    } finally {
      if (!isReleased) endQuietly();
    }
  }

  /** Ends the process, which may have ended itself. */
  private void endQuietly() {
    try {
      end("destroyPythonWorker");
    } catch (Exception e) {
      Session.LOG.debug("a Python process on the driver had ended", e);
    }
  }

  private byte[] request(PythonPlannerRunner runner) throws Exception {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    PythonWorkerUtils$ spark = PythonWorkerUtils$.MODULE$;
    spark.writeUTF(runner.workerModule(), out);
    spark.writePythonVersion(source.pythonVer(), out);
    spark.writeSparkFiles(artifacts, (scala.collection.immutable.Set) scala.collection.immutable.Set$.MODULE$.empty(), out);
    SparkInternals.callIfThere(spark, "writeBroadcasts", new Object[] { scala.collection.immutable.Nil$.MODULE$, worker, Workers.env(), out });
    // Not all versions pass settings to these processes.
    Object settings = SparkInternals.callIfThere(runner, "runnerConf", new Object[0]);
    if (settings != null) SparkInternals.callIfThere(spark, "writeConf", new Object[] { settings, out });
    runner.writeToPython(out, new net.razorvine.pickle.Pickler(true, false));
    out.writeInt(SpecialLengths$.MODULE$.END_OF_STREAM());
    return bytes.toByteArray();
  }

  private void receiveAccumulators(DataInputStream in) {
    CollectionAccumulator all = source.accumulator();
    CollectionAccumulator received = all == null ? null : (CollectionAccumulator) (Object) all.copyAndReset();
    PythonWorkerUtils$.MODULE$.receiveAccumulatorUpdates(scala.Option$.MODULE$.apply(received), in);
    if (all != null) all.merge(received);
  }
}
