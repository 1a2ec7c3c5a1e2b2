package lancespark;

import java.io.ByteArrayOutputStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.plans.logical.CreateTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.TableSpecBase;
import org.apache.spark.sql.catalyst.plans.logical.V2CreateTablePlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.*;
import org.apache.spark.sql.connector.expressions.*;
import org.apache.spark.sql.connector.expressions.aggregate.*;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.connector.write.*;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.V2ScanRelationPushDown$;
import org.apache.spark.sql.execution.datasources.v2.python.*;
import org.apache.spark.sql.internal.connector.SupportsMetadata;
import org.apache.spark.sql.types.*;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Gives Spark's own push-down a lance table that it can talk to.
 *
 * Spark plans every Python source as a scan of all columns. This rule puts a relation over LanceTable in the place of such a scan; LanceTable's
 * scan builder has Spark's public connector interfaces, so that Spark's V2ScanRelationPushDown decides, by its own rules, what is pushed. What
 * was pushed goes to Python as JSON, composed with the pickle of the data source that Spark has already made: the pinned version stays.
 *
 * Compiled at run time by Janino on Spark 4.0 to 4.3: no lambdas, no generics, a cast at every getter. Nothing in here translates Catalyst.
 */
public class LancePlanner extends Rule {
  static final String SOURCE = "lance";
  private static int failures = 0;

  public LancePlanner() {}

  public String ruleName() { return "lance_spark.LancePlanner"; }

  /**
   * As a rule of the session's extensions it runs before Spark's push-down and sees relations; as an extra optimisation it runs behind it, sees
   * scans, and has the push-down run once more. Whatever goes wrong leaves the plan as it was: slower, never wrong.
   */
  public TreeNode apply(TreeNode plan) {
    if (plan instanceof V2CreateTablePlan) Stored.refusePartitions((V2CreateTablePlan) plan);
    try {
      Swap swap = new Swap();
      LogicalPlan swapped = swap.in((LogicalPlan) plan);
      return swap.scans > 0 ? (LogicalPlan) V2ScanRelationPushDown$.MODULE$.apply(swapped) : swapped;
    } catch (Throwable t) {
      if (failures++ < 3) org.slf4j.LoggerFactory.getLogger("lance_spark").warn("a query on a lance table is planned without push-down", t);
      return plan;
    }
  }

  /** For spark.sql.extensions, and for SparkSessionExtensions of a session that is not built yet. */
  public static class Extensions implements scala.Function1 {
    private static final Map done = Collections.synchronizedMap(new WeakHashMap());

    public Object apply(Object extensions) {
      if (done.put(extensions, Boolean.TRUE) == null) ((SparkSessionExtensions) extensions).injectOptimizerRule(new Builder());
      return scala.runtime.BoxedUnit.UNIT;
    }
  }

  public static class Builder implements scala.Function1 {
    public Object apply(Object session) { return new LancePlanner(); }
  }

  /** One walk through a plan; `scans` counts the finished scans that were turned back into relations. */
  static class Swap {
    int scans = 0;

    LogicalPlan in(LogicalPlan plan) throws Exception {
      if (plan instanceof DataSourceV2ScanRelation) {
        DataSourceV2ScanRelation scan = (DataSourceV2ScanRelation) plan;
        if (!(scan.scan() instanceof PythonScan) || !isLance(scan.relation().table())) return plan;
        scans++;
        return relation(scan.relation(), scan.output());
      }
      if (plan instanceof DataSourceV2Relation) {
        DataSourceV2Relation relation = (DataSourceV2Relation) plan;
        return isLance(relation.table()) ? relation(relation, relation.output()) : plan;
      }
      if (plan instanceof CreateTableAsSelect) plan = Stored.creation((CreateTableAsSelect) plan);
      if (plan instanceof V2WriteCommand) plan = Stored.write((V2WriteCommand) plan);
      List children = new ArrayList();
      boolean changed = false;
      Iterator it = CollectionConverters.asJava(plan.children()).iterator();
      while (it.hasNext()) {
        LogicalPlan child = (LogicalPlan) it.next();
        LogicalPlan now = in(child);
        changed = changed || now != child;
        children.add(now);
      }
      return changed ? (LogicalPlan) plan.withNewChildren(CollectionConverters.asScala(children).toSeq()) : plan;
    }

    /** The same relation over LanceTable. Its constructor differs between versions of Spark, so it is copied by position. */
    static LogicalPlan relation(DataSourceV2Relation relation, Object output) throws Exception {
      Object[] arguments = elements(relation);
      Map stored = Stored.options(relation);
      arguments[0] = new LanceTable((PythonTable) relation.table(), stored != null);
      arguments[1] = output;
      if (stored != null) {
        stored.putAll(relation.options().asCaseSensitiveMap());
        arguments[4] = new CaseInsensitiveStringMap(stored);
      }
      return (LogicalPlan) ((TreeNode) relation).makeCopy(arguments);
    }
  }

  static boolean isLance(Table table) { return table instanceof PythonTable && table.name().equalsIgnoreCase(SOURCE); }

  static Object[] elements(scala.Product product) {
    Object[] all = new Object[product.productArity()];
    for (int i = 0; i < all.length; i++) all[i] = product.productElement(i);
    return all;
  }

  /** Tables of the session catalog, whose options and location Spark does not hand to Python sources. */
  static class Stored {
    /** The options of a catalog table, its location as `path`; null for a relation that is no catalog table. */
    static Map options(DataSourceV2Relation relation) throws Exception {
      if (relation.identifier().isEmpty() || relation.catalog().isEmpty()) return null;
      if (!((CatalogPlugin) relation.catalog().get()).name().equals("spark_catalog")) return null;
      Identifier name = (Identifier) relation.identifier().get();
      TableIdentifier identifier = new TableIdentifier(name.name(), new scala.Some(name.namespace()[0]));
      CatalogTable table = (CatalogTable) (Object) session().sessionState().catalog().getTableMetadata(identifier);
      Map options = new HashMap(CollectionConverters.asJava(table.storage().properties()));
      if (!table.storage().locationUri().isEmpty()) options.put("path", table.storage().locationUri().get().toString());
      return options;
    }

    /** Spark's catalog would note partitions, and tables without any be written. */
    static void refusePartitions(V2CreateTablePlan plan) {
      Object[] arguments = elements((scala.Product) plan);
      boolean lance = false;
      for (int i = 0; i < arguments.length; i++) {
        if (!(arguments[i] instanceof TableSpecBase)) continue;
        scala.Option provider = ((TableSpecBase) arguments[i]).provider();
        lance = lance || !provider.isEmpty() && SOURCE.equalsIgnoreCase((String) provider.get());
      }
      if (lance && !plan.partitioning().isEmpty()) {
        throw new UnsupportedOperationException("lance tables have no partitions, buckets or clusters: leave out PARTITIONED BY, CLUSTERED BY and "
            + "CLUSTER BY (partitionBy, bucketBy, clusterBy). Conditions on any column are pushed into the scan");
      }
    }

    /** A table that is made of a query must not find data in its place, which it would append to. */
    static LogicalPlan creation(CreateTableAsSelect plan) throws Exception {
      scala.Option provider = ((TableSpecBase) plan.tableSpec()).provider();
      if (provider.isEmpty() || !SOURCE.equalsIgnoreCase((String) provider.get())) return plan;
      Map options = new HashMap(CollectionConverters.asJava(plan.writeOptions()));
      if ("create".equals(options.put("write_mode", "create"))) return plan;
      Object[] arguments = elements(plan);
      arguments[4] = scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(options));
      return (LogicalPlan) ((TreeNode) plan).makeCopy(arguments);
    }

    /** A planned write into a catalog table, with the table's own options under those of the statement. */
    static LogicalPlan write(V2WriteCommand command) throws Exception {
      if (!(command.table() instanceof DataSourceV2Relation) || !(command instanceof scala.Product)) return (LogicalPlan) command;
      DataSourceV2Relation relation = (DataSourceV2Relation) command.table();
      Map options = isLance(relation.table()) ? options(relation) : null;
      if (options == null) return (LogicalPlan) command;
      Object[] arguments = elements((scala.Product) command);
      boolean changed = false;
      for (int i = 0; i < arguments.length; i++) {
        if (!(arguments[i] instanceof scala.Some) || !(((scala.Some) arguments[i]).get() instanceof PythonWrite)) continue;
        PythonWrite write = (PythonWrite) ((scala.Some) arguments[i]).get();
        LogicalWriteInfo info = (LogicalWriteInfo) Private.get(write, "info");
        if (info instanceof WriteInfo) continue;
        boolean truncate = ((Boolean) Private.get(write, "isTruncate")).booleanValue();
        String name = (String) Private.get(write, "shortName");
        LogicalWriteInfo full = new WriteInfo(info, options, declared(info.schema(), relation.table().schema()));
        arguments[i] = new scala.Some(new PythonWrite((PythonDataSourceV2) Private.get(write, "ds"), name, full, truncate));
        changed = true;
      }
      return changed ? (LogicalPlan) ((TreeNode) command).makeCopy(arguments) : (LogicalPlan) command;
    }

    /** The rows' schema with nulls where the catalog allows them: that a query's own values are not null says nothing of the table. */
    private static StructType declared(StructType rows, StructType table) {
      if (rows.length() != table.length()) return rows;
      StructField[] fields = new StructField[rows.length()];
      for (int i = 0; i < fields.length; i++) {
        StructField row = rows.fields()[i], own = table.fields()[i];
        if (!row.name().equalsIgnoreCase(own.name()) || !DataType.equalsIgnoreNullability(row.dataType(), own.dataType())) return rows;
        fields[i] = new StructField(row.name(), own.dataType(), own.nullable(), row.metadata());
      }
      return new StructType(fields);
    }
  }

  static class WriteInfo implements LogicalWriteInfo {
    private final LogicalWriteInfo info;
    private final Map stored;
    private final StructType schema;

    WriteInfo(LogicalWriteInfo info, Map stored, StructType schema) {
      this.info = info;
      this.stored = stored;
      this.schema = schema;
    }

    public CaseInsensitiveStringMap options() {
      Map all = new HashMap(stored);
      all.putAll(info.options().asCaseSensitiveMap());
      return new CaseInsensitiveStringMap(all);
    }
    public String queryId() { return info.queryId(); }
    public StructType schema() { return schema; }
    public Optional rowIdSchema() { return info.rowIdSchema(); }
    public Optional metadataSchema() { return info.metadataSchema(); }
  }

  /** The Python table with a scan builder that takes push-down. */
  public static class LanceTable implements Table, SupportsRead, SupportsWrite {
    private final PythonTable inner;
    private final boolean declared;

    /** `declared`: it is a table of the session catalog. */
    LanceTable(PythonTable inner, boolean declared) { this.inner = inner; this.declared = declared; }

    public String name() { return inner.name(); }
    public StructType schema() { return inner.schema(); }
    public Set capabilities() { return inner.capabilities(); }
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      Source source = new Source(inner, options, declared);
      // A limit that the user gives comes before everything that Spark could push.
      return options.containsKey("limit") ? new ColumnsBuilder(source) : new LanceScanBuilder(source);
    }
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) { return inner.newWriteBuilder(info); }
  }

  /** The table that is scanned, as Spark's Python source has it. */
  static class Source {
    /** Tables of the session catalog: what Python made of them by PythonDataSourceV2, which sees no options, and then by options. */
    private static final Map made = new WeakHashMap();
    final PythonTable table;
    final CaseInsensitiveStringMap options;
    private final boolean declared;

    Source(PythonTable table, CaseInsensitiveStringMap options, boolean declared) {
      this.table = table;
      this.options = options;
      this.declared = declared;
    }

    PythonDataSourceV2 spark() throws Exception { return (PythonDataSourceV2) Private.get(table, "ds"); }

    /** The pickled source, at the version that it has pinned when Spark first asked for it. */
    private PythonDataSourceCreationResult inPython() throws Exception {
      if (!declared) return spark().getOrCreateDataSourceInPython(table.name(), options, new scala.Some(table.schema()));
      synchronized (made) {
        Map byOptions = (Map) made.get(spark());
        if (byOptions == null) made.put(spark(), byOptions = new HashMap());
        PythonDataSourceCreationResult result = (PythonDataSourceCreationResult) byOptions.get(options);
        if (result == null) {
          PythonDataSourceV2 fresh = new PythonDataSourceV2();
          fresh.setShortName(table.name());
          byOptions.put(options, result = fresh.getOrCreateDataSourceInPython(table.name(), options, new scala.Some(table.schema())));
        }
        return result;
      }
    }

    /** A batch of Spark's own whose source is bound to what is asked for. */
    Batch batch(String plan, StructType schema) throws Exception {
      PythonDataSourceCreationResult result = inPython();
      PythonDataSourceV2 bound = new PythonDataSourceV2();
      bound.setShortName(table.name());
      Private.set(bound, "dataSourceInPython", new PythonDataSourceCreationResult(Pickle.bind(result.dataSource(), plan), result.schema()));
      return new PythonBatch(bound, table.name(), schema, options);
    }

    /** The beginning of each request's JSON: what is the same for all of them. */
    StringBuilder json() {
      StringBuilder out = new StringBuilder("{\"parallelism\":").append(session().sparkContext().defaultParallelism());
      if (declared) Json.text(table.schema().json(), out.append(",\"declared\":"));
      return out;
    }

    boolean same(Source other) {
      try {
        return spark() == other.spark() && options.equals(other.options) && declared == other.declared;
      } catch (Exception e) {
        return false;
      }
    }
  }

  static org.apache.spark.sql.classic.SparkSession session() {
    return (org.apache.spark.sql.classic.SparkSession) (Object) org.apache.spark.sql.classic.SparkSession$.MODULE$.active();
  }

  /** Takes columns only. */
  static class ColumnsBuilder implements ScanBuilder, SupportsPushDownRequiredColumns {
    final Source source;
    final Request request = new Request();
    StructType schema;

    ColumnsBuilder(Source source) {
      this.source = source;
      this.schema = source.table.schema();
    }

    public void pruneColumns(StructType required) {
      if (request.aggregates != null) return;
      schema = required;
      StructField[] all = source.table.schema().fields();
      if (required.fields().length > 0 || all.length == 0) return;
      // Without columns Spark 4.0 loses the number of rows: ask for the narrowest, and say that its values do not matter.
      StructField narrowest = all[0];
      for (int i = 1; i < all.length; i++) if (all[i].dataType().defaultSize() < narrowest.dataType().defaultSize()) narrowest = all[i];
      schema = new StructType(new StructField[] { narrowest });
      request.rowsOnly = true;
    }

    public Scan build() { return new LanceScan(source, schema, request); }
  }

  /** Collects what Spark pushes. Top-N and a limit after a filter are "at most n per partition", aggregates one row per partition: Spark keeps its own above. */
  static class LanceScanBuilder extends ColumnsBuilder implements SupportsPushDownV2Filters, SupportsPushDownLimit, SupportsPushDownTopN,
      SupportsPushDownAggregates {
    LanceScanBuilder(Source source) { super(source); }

    public Predicate[] pushPredicates(Predicate[] predicates) {
      List rest = new ArrayList();
      for (int i = 0; i < predicates.length; i++) {
        Json json = new Json(source.table.schema());
        boolean known = json.expression(predicates[i]);
        if (known) request.add(predicates[i], json);
        if (!known || !json.exact) rest.add(predicates[i]);
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
      Json json = new Json(source.table.schema());
      json.out.append('[');
      for (int i = 0; i < orders.length; i++) {
        if (i > 0) json.out.append(',');
        json.out.append('[');
        if (!(orders[i].expression() instanceof NamedReference) || !json.expression(orders[i].expression()) || !json.exact) return false;
        json.out.append(orders[i].direction() == SortDirection.ASCENDING ? ",true" : ",false");
        json.out.append(orders[i].nullOrdering() == NullOrdering.NULLS_FIRST ? ",true]" : ",false]");
      }
      request.top = json.out.append(']').toString();
      request.topText = Arrays.asList(orders) + " LIMIT " + limit;
      request.limit = limit;
      return true;
    }

    /** A limit alone is settled by counting rows where the scan is planned; then all tasks together give no more. */
    public boolean isPartiallyPushed() { return request.top != null || !request.predicates.isEmpty(); }

    /** Only what the manifest answers is one row for the whole table. */
    public boolean supportCompletePushDown(Aggregation aggregation) {
      AggregateFunc[] functions = aggregation.aggregateExpressions();
      for (int i = 0; i < functions.length; i++) if (!(functions[i] instanceof CountStar)) return false;
      return request.predicates.isEmpty() && aggregation.groupByExpressions().length == 0;
    }

    public boolean pushAggregation(Aggregation aggregation) {
      AggregateFunc[] functions = aggregation.aggregateExpressions();
      // Without functions it is the one row of an aggregate of which nothing else is wanted.
      if (aggregation.groupByExpressions().length > 0 || functions.length == 0) return false;
      Json json = new Json(source.table.schema());
      StructField[] fields = new StructField[functions.length];
      json.out.append('[');
      for (int i = 0; i < functions.length; i++) {
        if (i > 0) json.out.append(',');
        DataType type = json.aggregate(functions[i]);
        if (type == null) return false;
        fields[i] = new StructField("a" + i, type, !(functions[i] instanceof Count || functions[i] instanceof CountStar), Metadata.empty());
      }
      request.aggregates = json.out.append(']').toString();
      request.aggregatesText = Arrays.asList(functions).toString();
      schema = new StructType(fields);
      return true;
    }
  }

  /** What was pushed, as Spark's values for explain and as the JSON that Python gets. */
  static class Request {
    final List predicates = new ArrayList();
    final List filters = new ArrayList();
    int limit = -1;
    String top, topText, aggregates, aggregatesText;
    boolean rowsOnly = false;

    void add(Predicate predicate, Json json) {
      predicates.add(predicate);
      filters.add(json.out.toString());
    }

    String json(StringBuilder out, List runtime) {
      out.append(",\"filter\":[");
      Iterator it = filters.iterator();
      for (String comma = ""; it.hasNext(); comma = ",") out.append(comma).append(it.next());
      it = runtime.iterator();
      for (String comma = filters.isEmpty() ? "" : ","; it.hasNext(); comma = ",") out.append(comma).append(it.next());
      out.append(']');
      if (limit >= 0) out.append(",\"limit\":").append(limit);
      if (top != null) out.append(",\"top\":").append(top);
      if (aggregates != null) out.append(",\"aggregates\":").append(aggregates);
      if (rowsOnly) out.append(",\"rows_only\":true");
      return out.append('}').toString();
    }
  }

  static class LanceScan implements Scan, SupportsReportStatistics, SupportsRuntimeV2Filtering, SupportsMetadata {
    private final Source source;
    private final StructType schema;
    private final Request request;
    private final List runtimePredicates = new ArrayList();
    private final List runtimeFilters = new ArrayList();
    private LanceBatch batch;

    LanceScan(Source source, StructType schema, Request request) {
      this.source = source;
      this.schema = schema;
      this.request = request;
    }

    public StructType readSchema() { return schema; }
    public Scan.ColumnarSupportMode columnarSupportMode() { return Scan.ColumnarSupportMode.UNSUPPORTED; }

    Map described() {
      Map out = new LinkedHashMap();
      out.put("PushedFilters", request.predicates.toString());
      if (!runtimePredicates.isEmpty()) out.put("RuntimeFilters", runtimePredicates.toString());
      if (request.top != null) out.put("PushedTopN", request.topText);
      else if (request.limit >= 0) out.put("PushedLimit", "LIMIT " + request.limit);
      if (request.aggregates != null) out.put("PushedAggregates", request.aggregatesText);
      out.put("ReadSchema", schema.simpleString());
      return out;
    }

    public String description() {
      StringBuilder out = new StringBuilder("lance ").append(source.options.containsKey("path") ? source.options.get("path") : "");
      Iterator it = described().entrySet().iterator();
      while (it.hasNext()) {
        Map.Entry entry = (Map.Entry) it.next();
        out.append(", ").append(entry.getKey()).append(": ").append(entry.getValue());
      }
      return out.toString();
    }

    public scala.collection.immutable.Map getMetaData() {
      return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(described()));
    }

    private String plan() { return request.json(source.json(), runtimeFilters); }

    /** Plans in Python, once for each set of run-time filters. */
    public synchronized Batch toBatch() {
      String plan = plan();
      if (batch != null && batch.plan.equals(plan)) return batch;
      try {
        batch = new LanceBatch(this, plan, source.batch(plan, schema));
      } catch (Exception e) {
        // As it is: what Python says is a checked exception that Scala does not declare.
        Platform.throwException(e);
      }
      return batch;
    }

    public CustomMetric[] supportedCustomMetrics() {
      try {
        return source.spark().source().createPythonMetrics();
      } catch (Exception e) {
        return new CustomMetric[0];
      }
    }

    /** The sums of what each partition says of itself; the partitions are kept for execution. */
    public Statistics estimateStatistics() {
      try {
        InputPartition[] partitions = toBatch().planInputPartitions();
        long rows = 0, bytes = 0;
        for (int i = 0; i < partitions.length; i++) {
          long[] size = Pickle.size(((PythonInputPartition) partitions[i]).pickedPartition());
          if (size == null) return new Size(OptionalLong.empty(), OptionalLong.empty());
          rows += size[0];
          bytes += size[1];
        }
        return new Size(OptionalLong.of(rows), OptionalLong.of(Math.max(bytes, 1)));
      } catch (Exception e) {
        // Planning will fail again when the query runs, and be reported then.
        return new Size(OptionalLong.empty(), OptionalLong.empty());
      }
    }

    public NamedReference[] filterAttributes() {
      boolean open = request.aggregates == null && request.limit < 0 && !source.options.containsKey("limit");
      StructField[] fields = open ? schema.fields() : new StructField[0];
      // Spark fails at a name that it cannot resolve, such as one of two that differ only in case.
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
        Json json = new Json(source.table.schema());
        if (json.expression(predicates[i]) && !runtimeFilters.contains(json.out.toString())) {
          runtimePredicates.add(predicates[i]);
          runtimeFilters.add(json.out.toString());
        }
      }
    }

    public Predicate[] pushedPredicates() { return new Predicate[0]; }
    public boolean supportsIterativePushdown() { return false; }

    boolean sameTable(LanceScan other) { return source.same(other.source) && other.schema.equals(schema); }

    public boolean equals(Object other) {
      return other instanceof LanceScan && sameTable((LanceScan) other) && ((LanceScan) other).plan().equals(plan());
    }

    public int hashCode() { return schema.hashCode() * 31 + request.filters.hashCode(); }
  }

  /** Stays on the driver. Equal requests on one relation are equal, so that Spark reuses exchanges. */
  static class LanceBatch implements Batch {
    final String plan;
    private final LanceScan scan;
    private final Batch inner;

    LanceBatch(LanceScan scan, String plan, Batch inner) { this.scan = scan; this.plan = plan; this.inner = inner; }

    public InputPartition[] planInputPartitions() { return inner.planInputPartitions(); }
    public PartitionReaderFactory createReaderFactory() { return inner.createReaderFactory(); }
    public boolean equals(Object other) {
      return other instanceof LanceBatch && ((LanceBatch) other).plan.equals(plan) && ((LanceBatch) other).scan.sameTable(scan);
    }
    public int hashCode() { return plan.hashCode(); }
  }

  static class Size implements Statistics {
    private final OptionalLong rows, bytes;

    Size(OptionalLong rows, OptionalLong bytes) { this.rows = rows; this.bytes = bytes; }

    public OptionalLong sizeInBytes() { return bytes; }
    public OptionalLong numRows() { return rows; }
  }

  /** Fields of Spark's classes that have no getter. */
  static class Private {
    static Object get(Object object, String name) throws Exception { return field(object, name).get(object); }
    static void set(Object object, String name, Object value) throws Exception { field(object, name).set(object, value); }

    private static Field field(Object object, String name) throws Exception {
      Field field = object.getClass().getDeclaredField(name);
      field.setAccessible(true);
      return field;
    }
  }

  /** The two places where this side reads or writes pickles. */
  static class Pickle {
    /** See lance_spark.spark.reader.LancePartition: behind this marker stand rows and bytes, 8 bytes each, little endian. */
    private static final byte[] MARK = "LanceSize:".getBytes(StandardCharsets.US_ASCII);

    /** The pickle of `lance_spark.spark.source.bind(source, plan)`. */
    static byte[] bind(byte[] source, String plan) throws Exception {
      byte[] json = plan.getBytes(StandardCharsets.UTF_8);
      ByteArrayOutputStream out = new ByteArrayOutputStream();
      out.write(new byte[] { (byte) 0x80, 3 });
      out.write("clance_spark.spark.source\nbind\n".getBytes(StandardCharsets.UTF_8));
      out.write('B');
      sized(out, source);
      out.write('X');
      sized(out, json);
      out.write(new byte[] { (byte) 0x86, 'R', '.' });
      return out.toByteArray();
    }

    private static void sized(ByteArrayOutputStream out, byte[] bytes) throws Exception {
      for (int shift = 0; shift < 32; shift += 8) out.write(bytes.length >> shift);
      out.write(bytes);
    }

    /** Rows and bytes of a pickled partition, null if it does not say. The first marker is the partition's own: it stands before all that users wrote. */
    static long[] size(byte[] pickle) {
      for (int at = 0; at + MARK.length + 16 <= pickle.length; at++) {
        int same = 0;
        while (same < MARK.length && pickle[at + same] == MARK[same]) same++;
        if (same == MARK.length) return new long[] { number(pickle, at + same), number(pickle, at + same + 8) };
      }
      return null;
    }

    private static long number(byte[] bytes, int at) {
      long value = 0;
      for (int i = 7; i >= 0; i--) value = value << 8 | bytes[at + i] & 0xff;
      return value;
    }
  }

  /** Connector expressions as JSON: ["c","a","b"] is column a.b, ["l","long",5] a literal, ["AND",x,y] a call. */
  static class Json {
    private static final Set CALLS = new HashSet(Arrays.asList(new Object[] { "=", "<>", "<=>", "<", "<=", ">", ">=", "AND", "OR", "NOT", "IN", "IS_NULL",
        "IS_NOT_NULL", "STARTS_WITH", "ENDS_WITH", "CONTAINS", "ALWAYS_TRUE", "ALWAYS_FALSE" }));
    /** Calls whose operands after the first must be constants for the reader. */
    private static final Set CONSTANTS = new HashSet(Arrays.asList(new Object[] { "IN", "STARTS_WITH", "ENDS_WITH", "CONTAINS" }));
    private static final int DEEPEST = 50, LONGEST = 1 << 20;
    final StringBuilder out = new StringBuilder();
    /** Whether the reader's answer is Spark's to the last bit; else Spark filters again. */
    boolean exact = true;
    private final StructType schema;

    Json(StructType schema) { this.schema = schema; }

    /** Appends `e`; false when it holds something that is not passed on. */
    boolean expression(Expression e) { return expression(e, 0) && out.length() < LONGEST; }

    private boolean expression(Expression e, int depth) {
      if (e instanceof Literal) return literal((Literal) e);
      if (e instanceof NamedReference) return column((NamedReference) e, false);
      if (!(e instanceof GeneralScalarExpression) || !CALLS.contains(((GeneralScalarExpression) e).name()) || depth > DEEPEST) return false;
      String name = ((GeneralScalarExpression) e).name();
      boolean nullTest = name.startsWith("IS_"), before = exact;
      List operands = new ArrayList();
      operands(e, name, operands);
      out.append('[');
      text(name, out);
      for (int i = 0; i < operands.size(); i++) {
        Expression operand = (Expression) operands.get(i);
        boolean constant = operand instanceof Literal && (name.equals("IN") || ((Literal) operand).value() != null);
        if (i > 0 && CONSTANTS.contains(name) && !constant) return false;
        out.append(',');
        if (!(nullTest && operand instanceof NamedReference ? column((NamedReference) operand, true) : expression(operand, depth + 1))) return false;
      }
      out.append(']');
      if (nullTest) exact = before;
      return true;
    }

    /** Chains of AND and of OR come as deep as they are long, and go as one call. */
    private static void operands(Expression e, String name, List to) {
      Expression[] children = e.children();
      for (int i = 0; i < children.length; i++) {
        boolean chained = (name.equals("AND") || name.equals("OR")) && children[i] instanceof GeneralScalarExpression;
        if (chained && ((GeneralScalarExpression) children[i]).name().equals(name)) operands(children[i], name, to);
        else to.add(children[i]);
      }
    }

    /** Appends one aggregate; its result type, or null when it is not passed on. */
    DataType aggregate(AggregateFunc function) {
      if (function instanceof CountStar) {
        out.append("[\"count\"]");
        return DataTypes.LongType;
      }
      Expression column;
      String name;
      if (function instanceof Min) { name = "min"; column = ((Min) function).column(); }
      else if (function instanceof Max) { name = "max"; column = ((Max) function).column(); }
      else if (function instanceof Count && !((Count) function).isDistinct()) { name = "count"; column = ((Count) function).column(); }
      else return null;
      DataType type = column instanceof NamedReference ? typeOf((NamedReference) column) : null;
      out.append("[\"").append(name).append("\",");
      boolean count = name.equals("count");
      if (type == null || !count && !isExact(type) || !column((NamedReference) column, count)) return null;
      out.append(']');
      return count ? DataTypes.LongType : type;
    }

    private DataType typeOf(NamedReference column) {
      DataType type = schema;
      String[] names = column.fieldNames();
      for (int i = 0; i < names.length; i++) {
        if (!(type instanceof StructType)) return null;
        StructField[] fields = ((StructType) type).fields();
        type = null;
        for (int k = 0; k < fields.length; k++) if (fields[k].name().equals(names[i])) type = fields[k].dataType();
      }
      return type;
    }

    /** Types whose comparison in the reader is Spark's; collated strings are not even passed on. */
    private static boolean isExact(DataType t) {
      return t.equals(DataTypes.StringType) || t instanceof ByteType || t instanceof ShortType || t instanceof IntegerType || t instanceof LongType
          || t instanceof DateType || t instanceof TimestampType || t instanceof TimestampNTZType || t instanceof BooleanType || t instanceof DecimalType
          || t instanceof BinaryType;
    }

    /** `anyType`: it is only asked whether there is a value. */
    private boolean column(NamedReference column, boolean anyType) {
      DataType type = typeOf(column);
      boolean isFloat = type instanceof FloatType || type instanceof DoubleType;
      if (type == null || !anyType && !isExact(type) && !isFloat) return false;
      if (isFloat && !anyType) exact = false;
      out.append("[\"c\"");
      String[] names = column.fieldNames();
      for (int i = 0; i < names.length; i++) text(names[i], out.append(','));
      out.append(']');
      return true;
    }

    private boolean literal(Literal literal) {
      Object value = literal.value();
      DataType t = literal.dataType();
      boolean isFloat = t instanceof FloatType || t instanceof DoubleType;
      if (!isExact(t) && !isFloat) return false;
      out.append("[\"l\",");
      text(t instanceof DecimalType ? "decimal" : names(t), out);
      out.append(',');
      if (value == null) out.append("null");
      else if (isFloat || t instanceof DecimalType || t.equals(DataTypes.StringType)) text(value.toString(), out);
      else if (t instanceof BinaryType) text(Base64.getEncoder().encodeToString((byte[]) value), out);
      else out.append(value);
      out.append(']');
      boolean isTime = t instanceof DateType || t instanceof TimestampType || t instanceof TimestampNTZType;
      return !isTime || value == null || inPython(((Number) value).longValue(), t);
    }

    /** Whether a date or timestamp is of the years 1 to 9999, which is all that Python's classes take. */
    private static boolean inPython(long value, DataType t) {
      long days = t instanceof DateType ? value : Math.floorDiv(value, 86400000000L);
      return days >= -719162 && days <= 2932896;
    }

    private static String names(DataType t) {
      if (t instanceof ByteType) return "byte";
      if (t instanceof ShortType) return "short";
      if (t instanceof IntegerType) return "int";
      if (t instanceof LongType) return "long";
      return t.typeName();
    }

    static void text(String s, StringBuilder out) {
      out.append('"');
      for (int i = 0; i < s.length(); i++) {
        char c = s.charAt(i);
        if (c == '"' || c == '\\') out.append('\\').append(c);
        else if (c < 32 || c > 126) out.append(String.format("\\u%04x", new Object[] { new Integer(c) }));
        else out.append(c);
      }
      out.append('"');
    }
  }
}
