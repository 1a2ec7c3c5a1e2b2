package lancespark.columnar;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import lancespark.protocol.Message;
import lancespark.protocol.Protocol;
import org.apache.spark.TaskContext;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.util.AccumulatorV2;
import org.apache.spark.util.CollectionAccumulator;

/**
 * The report of a Python worker on its task: what it has read (lance_spark.spark.workers.metrics). It arrives after the last row, as the update of an
 * accumulator. Each task has one of its own, because the session's does not know this update.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
public final class WorkerReport {
  /** The names of the metrics in the order of the report. */
  public static final String[] NAMES = {
    "lanceRows", "lanceBytesRead", "lanceBytes", "lancePagesRead", "lancePages", "lanceStoreTime", "lanceDecodingTime",
    "lanceLogRows"
  };
  private final CollectionAccumulator updates = new CollectionAccumulator();
  private final long limit;
  private long rows = 0;
  private Thread reader;

  /** `limit` is the number of rows after which Spark may stop to ask for more; -1 if it always asks. */
  WorkerReport(long limit) { this.limit = limit; }

  /** A factory whose workers report here. */
  PartitionReaderFactory from(PartitionReaderFactory factory) throws Exception {
    PythonFunction f = ((UserDefinedPythonDataSource) PythonBatches.field(factory, "source")).dataSourceCls();
    PythonFunction own = new SimplePythonFunction(f.command(), f.envVars(), f.pythonIncludes(), f.pythonExec(), f.pythonVer(), f.broadcastVars(), updates);
    return PythonBatches.withSource(factory, new UserDefinedPythonDataSource(own));
  }

  void count(long more) {
    rows += more;
    reader = Thread.currentThread();
  }

  long rows() { return rows; }

  /** True at the end of a task of which Spark has the last row that it may have, but has not asked whether it is the last one. */
  boolean isDue(TaskContext task) { return rows == limit && reader == Thread.currentThread() && !task.isInterrupted(); }

  /** These values and the reported ones, if the report has arrived. */
  CustomTaskMetric[] with(CustomTaskMetric[] others) {
    List all = new ArrayList(Arrays.asList(others));
    for (Object update : (List<?>) ((AccumulatorV2) updates).value()) {
      Message read = Message.update((byte[]) update, Protocol.READ);
      for (int i = 0; read != null && i < NAMES.length; i++) all.add(new TaskValue(NAMES[i], read.integer()));
    }
    return (CustomTaskMetric[]) all.toArray(new CustomTaskMetric[0]);
  }
}
