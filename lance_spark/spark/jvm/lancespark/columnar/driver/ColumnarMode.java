package lancespark.columnar.driver;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.*;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import lancespark.columnar.ColumnarReaderFactory;
import lancespark.columnar.PythonWriterFactory;
import lancespark.columnar.ReportingReaderFactory;
import lancespark.core.HandOver;
import lancespark.core.Session;
import org.apache.spark.JobArtifactSet$;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatchWriterFactory;
import org.apache.spark.sql.types.StructType;

/**
 * Whether a scan hands over columns or rows to Spark, and why; whether its tasks report what they have read; and how writes hand over rows.
 *
 * The driver decides, once for each scan, because Spark plans the scan's parent accordingly. Executors need the classes of the package columnar:
 * in local mode they find them through the driver's class loader, in a cluster they get them as a jar.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
public class ColumnarMode extends HandOver {
  static final String SETTING = "spark.lance.columnar";
  private static final String ROOT = "lancespark/";
  /** The classes that executors get: the packages columnar and protocol. */
  private static final String[] CLASSES = {
    "columnar/BatchMemory", "columnar/ColumnarReader", "columnar/ColumnarReaderFactory", "columnar/FewRows", "columnar/FewRows$Chain",
    "columnar/FlatVector", "columnar/FlatVectors", "columnar/PythonBatches", "columnar/PythonTask", "columnar/PythonWriter",
    "columnar/PythonWriterFactory", "columnar/ReportingReader", "columnar/ReportingReaderFactory", "columnar/RowParts", "columnar/RowParts$Part",
    "columnar/TaskMemory", "columnar/TaskValue", "columnar/WorkerReport", "protocol/Instructions", "protocol/Json", "protocol/Message",
    "protocol/MessageWriter", "protocol/Names", "protocol/PickleReader", "protocol/PickleWriter", "protocol/Protocol"
  };
  private static final Set shipped = new HashSet();
  private static String jar = null;

  private final StructType schema;
  private final String obstacle;
  private final boolean reports;

  public ColumnarMode() { this(null, null, false); }

  private ColumnarMode(StructType schema, String obstacle, boolean reports) {
    this.schema = schema;
    this.obstacle = obstacle;
    this.reports = reports;
  }

  public HandOver in(StructType schema) {
    String setting = Session.setting(SETTING, "true").trim();
    boolean isOff = setting.equalsIgnoreCase("false");
    if (!isOff && !setting.equalsIgnoreCase("true")) throw new IllegalArgumentException("invalid value of " + SETTING + ": expected true or false, found " + setting);
    String executors = executorsObstacle(Session.active().sparkContext()), type = ColumnarReaderFactory.obstacle(schema);
    return new ColumnarMode(schema, isOff ? SETTING + " is false" : type != null ? type : executors, executors == null && Metrics.areShown());
  }

  public boolean isColumnar() { return obstacle == null; }
  public StructType sent(StructType schema) { return isColumnar() ? ColumnarReaderFactory.sent(schema) : schema; }
  public boolean reports() { return reports; }
  public String shown() { return obstacle == null ? "true" : "false (" + obstacle + ")"; }
  public CustomMetric[] metrics(CustomMetric[] sparks, boolean isPartitioned, boolean hasLog) { return Metrics.ofScan(sparks, isPartitioned, hasLog, reports); }
  public CustomTaskMetric[] skipped(byte[] partition) { return Metrics.skipped(partition); }
  public Write measured(Write write) { return new MeasuredWrite(write); }

  public PartitionReaderFactory factory(PartitionReaderFactory rows, long limit) {
    if (obstacle != null && !reports) return rows;
    ship(Session.active().sparkContext());
    return obstacle == null ? (PartitionReaderFactory) new ColumnarReaderFactory(rows, schema, limit) : new ReportingReaderFactory(rows, schema, limit);
  }

  /** The factory for executors that write, which hands rows over faster than Spark's own if the setting and this Spark allow it. See PythonWriterFactory. */
  static DataWriterFactory writers(DataWriterFactory sparks, long few) {
    if (!(sparks instanceof PythonBatchWriterFactory) || !Session.setting(SETTING, "true").trim().equalsIgnoreCase("true")) return sparks;
    SparkContext context = Session.active().sparkContext();
    if (executorsObstacle(context) != null) return sparks;
    ship(context);
    return new PythonWriterFactory((PythonBatchWriterFactory) sparks, few);
  }

  /** Adds the jar to the jobs of the current session: each has jars of its own. */
  private static void ship(SparkContext context) {
    if (context.isLocal()) return;
    synchronized (shipped) {
      if (shipped.add(context.applicationId() + " " + JobArtifactSet$.MODULE$.getCurrentJobArtifactState())) context.addJar(jar);
    }
  }

  /** Why executors cannot load the classes; null if they can. */
  private static String executorsObstacle(SparkContext context) {
    try {
      if (!context.isLocal()) {
        writeJar();
        return null;
      }
      ClassLoader executors = Thread.currentThread().getContextClassLoader();
      boolean isSame = Class.forName(ColumnarReaderFactory.class.getName(), false, executors) == ColumnarReaderFactory.class;
      return isSame ? null : "Spark's class loader has other classes of the planner";
    } catch (ClassNotFoundException e) {
      return "Spark's class loader takes no classes";
    } catch (IOException e) {
      return "the jar for executors cannot be written: " + e.getMessage();
    }
  }

  /** Writes the classes as a jar, from which executors fetch them as long as the driver runs. */
  private static synchronized void writeJar() throws IOException {
    if (jar != null) return;
    File file = File.createTempFile("lance-columnar", ".jar");
    file.deleteOnExit();
    ZipOutputStream out = new ZipOutputStream(new FileOutputStream(file));
    try {
      for (int i = 0; i < CLASSES.length; i++) {
        String name = ROOT + CLASSES[i] + ".class";
        InputStream in = ColumnarReaderFactory.class.getClassLoader().getResourceAsStream(name);
        if (in == null) throw new IOException(name + " is missing");
        out.putNextEntry(new ZipEntry(name));
        out.write(in.readAllBytes());
        in.close();
      }
    } finally {
      out.close();
    }
    jar = file.getPath();
  }
}
