package lancespark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import org.apache.spark.sql.connector.expressions.*;
import org.apache.spark.sql.connector.expressions.aggregate.*;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.internal.connector.SupportsMetadata;
import org.apache.spark.sql.types.*;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;
import scala.jdk.javaapi.CollectionConverters;

/** The request for one scan, as JSON for Python and as Spark's values for explain. See lance_spark.spark.planner.scan.request. */
class Request {
  /** The option of a relation with conditions that Spark does not push, see ExtraConditions. */
  static final String CONDITIONS = "lance_spark.conditions";
  final List predicates = new ArrayList();
  /** The SQL of conditions that Spark cannot express as predicates, and evaluates again. */
  final List extra = new ArrayList();
  /** The JSON of all of them. */
  final ArrayNode filters = PlanJson.array();
  int limit = -1;
  ArrayNode topN;
  String shownTopN;
  PushedAggregates aggregates;
  boolean rowsOnly = false;
  boolean changesRows = false;

  /** The request as JSON: the part common to all requests on the source, and the run-time filters of one execution. */
  String json(ObjectNode json, List runtimeFilters) {
    json.set("filter", filters.deepCopy().addAll(runtimeFilters));
    if (limit >= 0) json.put("limit", limit);
    if (topN != null) json.set("top", topN);
    if (aggregates != null) json.set("aggregates", aggregates.functions);
    if (aggregates != null) json.set("keys", aggregates.keys);
    if (rowsOnly) json.put("rows_only", true);
    if (changesRows) json.put("changes_rows", true);
    return PlanJson.text(json);
  }

  /** The options of a table without those of one relation. */
  static CaseInsensitiveStringMap without(CaseInsensitiveStringMap options) {
    if (!options.containsKey(CONDITIONS)) return options;
    Map others = new HashMap(options.asCaseSensitiveMap());
    others.remove(CONDITIONS);
    return new CaseInsensitiveStringMap(others);
  }

  /** Adds the conditions in the options of a relation. */
  void addConditions(CaseInsensitiveStringMap options) {
    if (!options.containsKey(CONDITIONS)) return;
    try {
      Iterator conditions = new ObjectMapper().readTree(options.get(CONDITIONS)).iterator();
      while (conditions.hasNext()) {
        JsonNode condition = (JsonNode) conditions.next();
        extra.add(((JsonNode) (Object) condition.get(0)).asText());
        filters.add((JsonNode) (Object) condition.get(1));
      }
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(e);
    }
  }

  /** The text that explain shows. */
  Map shown(StructType schema, List runtimePredicates) {
    Map out = new LinkedHashMap();
    List all = new ArrayList(predicates);
    all.addAll(extra);
    out.put("PushedFilters", all.toString());
    if (!runtimePredicates.isEmpty()) out.put("RuntimeFilters", runtimePredicates.toString());
    if (topN != null) out.put("PushedTopN", shownTopN);
    else if (limit >= 0) out.put("PushedLimit", "LIMIT " + limit);
    if (aggregates != null) out.put("PushedAggregates", aggregates.shown);
    out.put("ReadSchema", schema.simpleString());
    return out;
  }
}

/** Plans searches that Spark has the rows of when it plans a query. */
interface SearchPlan {
  /** The scan of these rows; null for what is no such search. */
  Scan scan(Source source, StructType schema);
}

/** Accepts only columns. */
class ColumnsBuilder implements ScanBuilder, SupportsPushDownRequiredColumns {
  final Source source;
  final Request request = new Request();
  StructType schema;

  ColumnsBuilder(Source source) {
    this.source = source;
    this.schema = source.table.schema();
  }

  public void pruneColumns(StructType required) {
    if (request.aggregates != null) return;
    schema = withForgotten(required);
    StructField[] all = source.table.schema().fields();
    if (required.fields().length > 0 || all.length == 0) return;
    // Without columns, Spark 4.0 loses the number of rows: request the narrowest column and only the number of its rows.
    StructField narrowest = all[0];
    for (int i = 1; i < all.length; i++) if (all[i].dataType().defaultSize() < narrowest.dataType().defaultSize()) narrowest = all[i];
    schema = new StructType(new StructField[] { narrowest });
    request.rowsOnly = true;
  }

  /** Spark's pruning takes names such as I with and without a dot for one name, and forgets one of the two columns. */
  private StructType withForgotten(StructType required) {
    StructType found = required;
    StructField[] all = source.table.schema().fields(), wanted = required.fields();
    for (int i = 0; i < all.length; i++) {
      boolean isAlike = false, isWanted = false;
      for (int k = 0; k < wanted.length; k++) {
        isWanted = isWanted || wanted[k].name().equals(all[i].name());
        isAlike = isAlike || wanted[k].name().equalsIgnoreCase(all[i].name())
            && !wanted[k].name().toLowerCase(Locale.ROOT).equals(all[i].name().toLowerCase(Locale.ROOT));
      }
      if (isAlike && !isWanted) found = found.add(all[i]);
    }
    return found;
  }

  public Scan build() {
    SearchPlan search = source.isCut() ? (SearchPlan) Features.object("search", "VectorSearch") : null;
    Scan found = search == null ? null : search.scan(source, schema);
    return found == null ? new LanceScan(source, schema, request) : found;
  }
}

/**
 * Collects what Spark pushes down. The reader returns at most n rows or the aggregates of its rows per partition, so Spark computes the final
 * result of a top-N, of a limit after a filter, and of most aggregates.
 */
class LanceScanBuilder extends ColumnsBuilder implements SupportsPushDownV2Filters, SupportsPushDownLimit, SupportsPushDownTopN,
    SupportsPushDownAggregates {
  private boolean averagesExactly = true;

  LanceScanBuilder(Source source, CaseInsensitiveStringMap options) {
    super(source);
    request.addConditions(options);
  }

  public Predicate[] pushPredicates(Predicate[] predicates) {
    List rest = new ArrayList();
    for (int i = 0; i < predicates.length; i++) {
      PlanJson json = new PlanJson(source.table.schema());
      JsonNode filter = json.expression(predicates[i]);
      if (filter != null) {
        request.predicates.add(predicates[i]);
        request.filters.add(filter);
      }
      if (filter == null || !json.isExact) rest.add(predicates[i]);
    }
    return (Predicate[]) rest.toArray(new Predicate[rest.size()]);
  }

  public Predicate[] pushedPredicates() { return (Predicate[]) request.predicates.toArray(new Predicate[request.predicates.size()]); }

  public boolean pushLimit(int limit) {
    if (request.aggregates != null) return false;
    request.limit = limit;
    return true;
  }

  public boolean pushTopN(SortOrder[] orders, int limit) {
    if (request.aggregates != null) return false;
    PlanJson json = new PlanJson(source.table.schema());
    ArrayNode keys = PlanJson.array();
    for (int i = 0; i < orders.length; i++) {
      JsonNode column = orders[i].expression() instanceof NamedReference ? json.column((NamedReference) orders[i].expression(), false) : null;
      if (column == null || !json.isExact) return false;
      boolean ascending = orders[i].direction() == SortDirection.ASCENDING, nullsFirst = orders[i].nullOrdering() == NullOrdering.NULLS_FIRST;
      keys.add(PlanJson.array().add(column).add(ascending).add(nullsFirst));
    }
    request.topN = keys;
    request.shownTopN = Arrays.asList(orders) + " LIMIT " + limit;
    request.limit = limit;
    return true;
  }

  /** A limit without a filter is exact, because planning counts rows, unless they are also in a write-ahead log. */
  public boolean isPartiallyPushed() { return request.topN != null || !request.filters.isEmpty() || source.hasLog(); }

  /** Only aggregates that the manifest answers are complete, as one row for the whole table. */
  public boolean supportCompletePushDown(Aggregation aggregation) {
    AggregateFunc[] functions = aggregation.aggregateExpressions();
    // Spark asks before it replaces averages by sums and counts.
    averagesExactly = averagesExactly && PushedAggregates.averagesExactly(aggregation, source.table.schema());
    for (int i = 0; i < functions.length; i++) if (!(functions[i] instanceof CountStar)) return false;
    return request.filters.isEmpty() && aggregation.groupByExpressions().length == 0 && !source.hasLog();
  }

  public boolean pushAggregation(Aggregation aggregation) {
    if (!averagesExactly) return false;
    try {
      request.aggregates = new PushedAggregates(aggregation, source.table.schema());
      schema = request.aggregates.schema;
      return true;
    } catch (Unsupported e) {
      return false;
    }
  }
}

/** A finished scan. It stays on the driver; executors get Spark's own readers of Python sources. */
class LanceScan implements Scan, SupportsReportStatistics, SupportsRuntimeV2Filtering, SupportsMetadata {
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
    Iterator it = shown().entrySet().iterator();
    while (it.hasNext()) {
      Map.Entry entry = (Map.Entry) it.next();
      out.append(", ").append(entry.getKey()).append(": ").append(entry.getValue());
    }
    return out.toString();
  }

  public scala.collection.immutable.Map getMetaData() {
    return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(shown()));
  }

  /** What explain shows; also the indexes that are used, and how many tables of a partitioned namespace are read, which planning tells. */
  private Map shown() {
    Map out = request.shown(schema, runtimePredicates);
    out.put("Columnar", handOver().shown());
    boolean isFiltered = !request.filters.isEmpty() || !runtimeFilters.isEmpty() || source.options.containsKey("filter");
    if (!source.isPartitioned() && !isFiltered) return out;
    try {
      byte[] first = ((PythonInputPartition) toBatch().planInputPartitions()[0]).pickedPartition();
      long[] size = Pickle.size(first);
      if (source.isPartitioned()) out.put("Partitions", size[2] + " of " + size[3]);
      if (!Pickle.indexes(first).isEmpty()) out.put("ScalarIndexes", Pickle.indexes(first));
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
  boolean hasAllRows() {
    return request.filters.isEmpty() && request.limit < 0 && request.topN == null && request.aggregates == null && !request.rowsOnly && !request.changesRows
      && runtimeFilters.isEmpty();
  }

  /** Why these rows cannot be searched for those near to others; null if they can. */
  String whyNotJoined() throws Exception {
    if (source.isCut()) return "the options of the table choose rows by more than a condition";
    if (source.isPartitioned()) return "the table is a partitioned namespace; join its tables";
    if (source.version() == 0) return "the table has no version yet";
    if (source.hasLog()) return "rows of the table are in its write-ahead log; merge them, or leave them out by mem_wal=base";
    boolean isOfRows = request.limit < 0 && request.topN == null && request.aggregates == null;
    return isOfRows ? null : "the table is limited or aggregated";
  }

  /** Whether the scan evaluates a condition as Spark does, given as Spark pushes it down (or null), and as SQL. */
  boolean evaluates(Object pushed, String sql) {
    int at = request.extra.indexOf(sql);
    // The reader may take a condition on JSON for true.
    return pushed != null && request.predicates.contains(pushed) || at >= 0 && PlanJson.text((JsonNode) (Object) request.filters.get(at)).indexOf("JSON_TEXT") < 0;
  }

  /** What explain shows of the rows of a join. */
  String joinedName() {
    List all = new ArrayList(request.predicates);
    all.addAll(request.extra);
    return "lance " + (source.options.containsKey("path") ? source.options.get("path") : "") + (all.isEmpty() ? "" : ", PushedFilters: " + all);
  }

  /** What Python plans for a join with these rows, of which it needs the columns `schema`. */
  byte[] joined(ObjectNode join, StructType schema) throws Exception {
    ObjectNode json = source.request().put("schema", schema.json());
    json.set("join", join);
    Batch answer = source.batch(request.json(json, runtimeFilters), this.schema);
    return ((PythonInputPartition) answer.planInputPartitions()[0]).pickedPartition();
  }

  /** Plans in Python once for each set of run-time filters. */
  public synchronized Batch toBatch() {
    String json = json();
    if (batch != null && batch.request.equals(json)) return batch;
    try {
      batch = new LanceBatch(this, json, source.batch(json, handOver().sent(schema)));
    } catch (Exception e) {
      // Python's errors are checked exceptions that Scala does not declare; rethrow them unchanged.
      Platform.throwException(e);
    }
    return batch;
  }

  public CustomMetric[] supportedCustomMetrics() {
    try {
      return handOver().metrics(source.spark().source().createPythonMetrics(), source.isPartitioned(), source.hasLog());
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
        long[] size = Pickle.size(((PythonInputPartition) partitions[i]).pickedPartition());
        if (size == null) return UNKNOWN;
        rows += size[0];
        bytes += size[1];
      }
      return new Size(OptionalLong.of(rows), OptionalLong.of(Math.max(bytes, 1)));
    } catch (Exception e) {
      // Execution plans again and reports the error.
      return UNKNOWN;
    }
  }

  public NamedReference[] filterAttributes() {
    boolean takesFilters = request.aggregates == null && request.limit < 0 && !source.isCut();
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

/** Spark's own batch. Batches with equal requests on a relation are equal, so that Spark reuses exchanges. */
class LanceBatch implements Batch {
  final String request;
  private final LanceScan scan;
  private final Batch inner;

  LanceBatch(LanceScan scan, String request, Batch inner) {
    this.scan = scan;
    this.request = request;
    this.inner = inner;
  }

  public InputPartition[] planInputPartitions() { return inner.planInputPartitions(); }
  public PartitionReaderFactory createReaderFactory() { return scan.handOver().factory(inner.createReaderFactory(), scan.limit()); }
  public boolean equals(Object other) {
    return other instanceof LanceBatch && ((LanceBatch) other).request.equals(request) && ((LanceBatch) other).scan.readsSameTable(scan);
  }
  public int hashCode() { return request.hashCode(); }
}

class Size implements Statistics {
  private final OptionalLong rows, bytes;

  Size(OptionalLong rows, OptionalLong bytes) {
    this.rows = rows;
    this.bytes = bytes;
  }

  public OptionalLong sizeInBytes() { return bytes; }
  public OptionalLong numRows() { return rows; }
}
