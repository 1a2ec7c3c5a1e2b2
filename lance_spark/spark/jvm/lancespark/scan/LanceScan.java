package lancespark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.core.HandOver;
import lancespark.protocol.Json;
import lancespark.source.Source;
import org.apache.spark.sql.connector.expressions.*;
import org.apache.spark.sql.connector.expressions.aggregate.*;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.internal.connector.SupportsMetadata;
import org.apache.spark.sql.types.*;
import scala.jdk.javaapi.CollectionConverters;

/** A finished scan. It stays on the driver; executors get Spark's own readers of Python sources. */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
public class LanceScan implements Scan, SupportsReportStatistics, SupportsRuntimeV2Filtering, SupportsMetadata {
  private static final Statistics UNKNOWN = new Size(OptionalLong.empty(), OptionalLong.empty());
  private final Source source;
  private final StructType schema;
  private final Request request;
  private final List runtimePredicates = new ArrayList();
  private final List runtimeFilters = new ArrayList();
  private LanceBatch batch;
  private HandOver handOver;

  LanceScan(Source source, StructType schema, Request request) {
    this.source = source;
    this.schema = schema;
    this.request = request;
  }

  public StructType readSchema() { return schema; }

  public Scan.ColumnarSupportMode columnarSupportMode() {
    return handOver().isColumnar() ? Scan.ColumnarSupportMode.SUPPORTED : Scan.ColumnarSupportMode.UNSUPPORTED;
  }

  synchronized HandOver handOver() {
    if (handOver == null) handOver = HandOver.of(schema);
    return handOver;
  }

  public String description() {
    StringBuilder out = new StringBuilder("lance ").append(source.options.containsKey("path") ? source.options.get("path") : "");
    for (Map.Entry entry : shown().entrySet()) {
      out.append(", ").append(entry.getKey()).append(": ").append(entry.getValue());
    }
    return out.toString();
  }

  public scala.collection.immutable.Map getMetaData() {
    return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(shown()));
  }

  /** What explain shows; also the indexes that are used, and how many tables of a partitioned namespace are read, which planning tells. */
  private Map<String, String> shown() {
    Map<String, String> out = request.shown(schema, runtimePredicates);
    out.put("Columnar", handOver().shown());
    boolean isFiltered = !request.filters.isEmpty() || !runtimeFilters.isEmpty() || source.can("is_filtered");
    if (!source.can("has_tables") && !isFiltered) return out;
    try {
      byte[] first = ((PythonInputPartition) toBatch().planInputPartitions()[0]).pickedPartition();
      TaskSize size = TaskSize.of(first);
      if (source.can("has_tables")) out.put("Partitions", size.tablesRead + " of " + size.tables);
      if (!size.indexes.isEmpty()) out.put("ScalarIndexes", size.indexes);
    } catch (Exception e) {
      // The query plans again when it runs, and then reports the error.
    }
    return out;
  }

  private String json() {
    ObjectNode json = source.request();
    if (handOver().reports()) json.put("reports", true);
    if (handOver().isColumnar()) json.put("columnar", schema.json());
    return request.json(json, runtimeFilters);
  }

  int limit() { return request.limit; }

  /** Whether only columns were pushed down. */
  public boolean hasAllRows() {
    return request.filters.isEmpty() && request.limit < 0 && request.topN == null && request.aggregates == null && !request.rowsOnly && !request.changesRows
      && runtimeFilters.isEmpty();
  }

  /** Why these rows cannot be searched for those near to others; null if they can. */
  public String whyNotJoined() {
    if (!source.unjoined().isEmpty()) return source.unjoined();
    boolean isOfRows = request.limit < 0 && request.topN == null && request.aggregates == null;
    return isOfRows ? null : "the table is limited or aggregated";
  }

  /** Whether the scan evaluates a condition as Spark does, given as Spark pushes it down (or null), and as SQL. */
  public boolean evaluates(Object pushed, String sql) {
    int at = request.extra.indexOf(sql);
    // The reader may take a condition on JSON for true.
    return pushed != null && request.predicates.contains(pushed) || at >= 0 && Json.text((JsonNode) (Object) request.filters.get(at)).indexOf("JSON_TEXT") < 0;
  }

  /** What explain shows of the rows of a join. */
  public String joinedName() {
    List all = new ArrayList(request.predicates);
    all.addAll(request.extra);
    return "lance " + (source.options.containsKey("path") ? source.options.get("path") : "") + (all.isEmpty() ? "" : ", PushedFilters: " + all);
  }

  /** What Python plans for a join with these rows, of which it needs the columns `schema`. */
  public byte[] joined(ObjectNode join, StructType schema) {
    ObjectNode json = source.request().put("schema", schema.json());
    json.set("join", join);
    Batch answer = source.batch(request.json(json, runtimeFilters), this.schema);
    return ((PythonInputPartition) answer.planInputPartitions()[0]).pickedPartition();
  }

  /** Plans in Python once for each set of run-time filters. */
  public synchronized Batch toBatch() {
    String json = json();
    if (batch != null && batch.request.equals(json)) return batch;
    batch = new LanceBatch(this, json, source.batch(json, handOver().sent(schema)));
    return batch;
  }

  public CustomMetric[] supportedCustomMetrics() {
    try {
      return handOver().metrics(source.spark().source().createPythonMetrics(), source.can("has_tables"), source.can("has_log"));
    } catch (Exception e) {
      return new CustomMetric[0];
    }
  }

  public CustomTaskMetric[] reportDriverMetrics() {
    try {
      return handOver().skipped(((PythonInputPartition) toBatch().planInputPartitions()[0]).pickedPartition());
    } catch (Exception e) {
      return new CustomTaskMetric[0];
    }
  }

  /** The sums over the partitions. The partitions are kept for the execution. */
  public Statistics estimateStatistics() {
    try {
      InputPartition[] partitions = toBatch().planInputPartitions();
      long rows = 0, bytes = 0;
      for (int i = 0; i < partitions.length; i++) {
        TaskSize size = TaskSize.of(((PythonInputPartition) partitions[i]).pickedPartition());
        if (size == null) return UNKNOWN;
        rows += size.rows;
        bytes += size.bytes;
      }
      return new Size(OptionalLong.of(rows), OptionalLong.of(Math.max(bytes, 1)));
    } catch (Exception e) {
      // Execution plans again and reports the error.
      return UNKNOWN;
    }
  }

  public NamedReference[] filterAttributes() {
    boolean takesFilters = request.aggregates == null && request.limit < 0 && source.can("filter");
    StructField[] fields = takesFilters ? schema.fields() : new StructField[0];
    // Spark fails on a name that it cannot resolve, for example if two names differ only in case.
    HashSet<String> names = new HashSet<String>(), ambiguous = new HashSet<String>();
    for (int i = 0; i < fields.length; i++) {
      String name = fields[i].name().toLowerCase(Locale.ROOT);
      if (!names.add(name)) ambiguous.add(name);
    }
    ArrayList<NamedReference> out = new ArrayList<NamedReference>();
    for (int i = 0; i < fields.length; i++) {
      String name = fields[i].name();
      if (!ambiguous.contains(name.toLowerCase(Locale.ROOT))) out.add(Expressions.column("`" + name.replace("`", "``") + "`"));
    }
    return (NamedReference[]) out.toArray(new NamedReference[0]);
  }

  public void filter(Predicate[] predicates) {
    for (int i = 0; i < predicates.length; i++) {
      JsonNode filter = new PlanJson(source.table.schema()).expression(predicates[i]);
      if (filter == null || runtimeFilters.contains(filter)) continue;
      runtimePredicates.add(predicates[i]);
      runtimeFilters.add(filter);
    }
  }

  public Predicate[] pushedPredicates() { return new Predicate[0]; }
  public boolean supportsIterativePushdown() { return false; }

  boolean readsSameTable(LanceScan other) { return source.isSame(other.source) && other.schema.equals(schema); }

  public boolean equals(Object other) {
    return other instanceof LanceScan && readsSameTable((LanceScan) other) && ((LanceScan) other).json().equals(json());
  }

  public int hashCode() { return schema.hashCode() * 31 + request.filters.hashCode(); }
}
