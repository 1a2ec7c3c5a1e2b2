package lancespark.source;

import com.fasterxml.jackson.databind.node.ObjectNode;
import lancespark.core.Session;
import lancespark.core.SparkInternals;
import lancespark.protocol.Json;
import lancespark.protocol.MessageWriter;
import lancespark.protocol.Names;
import lancespark.protocol.Protocol;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatch;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The pickled data source of one table with its options, and its scans. */
@SuppressWarnings({"rawtypes", "unchecked"})
public class Source {
  public final PythonTable table;
  public final CaseInsensitiveStringMap options;

  public Source(PythonTable table, CaseInsensitiveStringMap options) {
    this.table = table;
    this.options = options;
  }

  public PythonDataSourceV2 spark() { return (PythonDataSourceV2) SparkInternals.get(table, "ds"); }

  public static void close(PythonTable table) {
    try {
      SparkInternals.set(SparkInternals.get(table, "ds"), "dataSourceInPython", null);
    } catch (Exception e) {
      Session.LOG.warn("a lance table was changed, but views and DataFrames that exist show the version before", e);
    }
  }

  /** A new PythonDataSourceV2 that Spark has not opened. */
  public static PythonDataSourceV2 unopened() {
    PythonDataSourceV2 source = new FormatSource();
    source.setShortName(Names.FORMAT);
    return source;
  }

  /** The pickled source. It is pinned to the version that was the latest at the first call. */
  private PythonDataSourceCreationResult inPython() {
    return spark().getOrCreateDataSourceInPython(table.name(), options, new scala.Some(table.schema()));
  }

  private Pinned pinned() { return new Pinned(pickle()); }

  public byte[] pickle() { return inPython().dataSource(); }

  /** True if Spark may ask this of the read: Abilities in lance_spark.spark.read.kind. Not of a table that cannot be opened; its scan reports why. */
  public boolean can(String ability) {
    try {
      return pinned().abilities.contains(ability);
    } catch (Exception e) {
      return false;
    }
  }

  /** Why a join by nearness does not find the rows; "" if one does. */
  public String unjoined() { return pinned().unjoined; }

  /** Spark's own batch over the source with the request. */
  public Batch batch(String request, StructType schema) {
    PythonDataSourceCreationResult result = inPython();
    PythonDataSourceV2 bound = unopened();
    byte[] pickle = new MessageWriter(Protocol.BOUND).text(request).pickle(result.dataSource());
    SparkInternals.set(bound, "dataSourceInPython", new PythonDataSourceCreationResult(pickle, result.schema()));
    return new PythonBatch(bound, table.name(), schema, options);
  }

  /** The pinned version, which row addresses refer to; 0 if there is no table yet. */
  public long version() { return pinned().version; }

  /** The command with the pinned version. */
  public ObjectNode noteVersion(ObjectNode command) {
    try {
      return command.put("version", version()).put("identity", identity());
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
  }

  /** True if a version is pinned. */
  public boolean isOpen() { return SparkInternals.get(spark(), "dataSourceInPython") != null; }

  /** What distinguishes the pinned version from that of another table at the same path; "" if there is no table yet. */
  public String identity() { return pinned().identity; }

  /** The part common to all requests on this source. */
  public ObjectNode request() {
    return Json.object().put("parallelism", Session.active().sparkContext().defaultParallelism());
  }

  public boolean isSame(Source other) {
    try {
      return spark() == other.spark() && options.equals(other.options);
    } catch (Exception e) {
      return false;
    }
  }

  /** True for Spark's table of the format. */
  public static boolean isOf(Table table) { return table instanceof PythonTable && table.name().equalsIgnoreCase(Names.FORMAT); }
}
