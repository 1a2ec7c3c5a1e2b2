package lancespark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.*;
import lancespark.columnar.Marks;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TruncatableTable;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatch;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Spark's table of a Python source, with push-down, metadata columns and row-level commands. */
class LanceTable implements Table, SupportsRead, SupportsWrite, SupportsMetadataColumns, SupportsRowLevelOperations, TruncatableTable {
  /** The option with the version that a write is based on, and its identity (lance_spark.spark.source). */
  private static final String BASED_ON = "__lance_based_on";
  /** The option that reads changes instead of rows. */
  static final String FEED = "readChangeFeed";
  /** The options of a reader that select a version. Spark itself loads a table by versionAsOf and timestampAsOf. */
  private static final String[] VERSIONS = { "version", "tag", "branch", "timestamp", "asof" };
  /** The option with the call of a table function, see SearchFunction. */
  static final String CALL = "__lance_function";
  private final PythonTable inner;
  private final String name;
  private final Map own;
  private final boolean isCatalogTable, takesColumnsOnly;

  /** A table of a catalog. `own` has the options with which it is opened, such as its path. Errors and explain show the name. */
  LanceTable(PythonTable inner, String name, Map own) { this(inner, name, own, true, false); }

  LanceTable(LanceTable table) { this(table.inner, table.name, table.own, table.isCatalogTable, table.takesColumnsOnly); }

  private LanceTable(PythonTable inner, String name, Map own, boolean isCatalogTable, boolean takesColumnsOnly) {
    this.inner = inner;
    this.name = name;
    this.own = own;
    this.isCatalogTable = isCatalogTable;
    this.takesColumnsOnly = takesColumnsOnly;
  }

  /** The lance table that is scanned for a query or a row-level command; null if it is another table. */
  static LanceTable scanned(Table table) {
    if (table instanceof LanceTable) return (LanceTable) table;
    boolean isCommand = table instanceof RowLevelOperationTable && ((RowLevelOperationTable) table).operation() instanceof LanceOperation;
    return isCommand ? ((LanceOperation) ((RowLevelOperationTable) table).operation()).table : null;
  }

  LanceTable takingColumnsOnly() { return new LanceTable(inner, name, own, isCatalogTable, true); }

  /** A table that Spark has opened with these options. */
  static LanceTable opened(PythonTable table, CaseInsensitiveStringMap options) {
    return new LanceTable(table, table.name(), options.asCaseSensitiveMap(), false, false);
  }

  /** A table that is opened now, with these options. */
  static LanceTable reopened(CaseInsensitiveStringMap options) { return opened(python(options), options); }

  static PythonTable python(CaseInsensitiveStringMap options) {
    PythonDataSourceV2 source = Source.unopened();
    return new PythonTable(source, LancePlanner.SOURCE, source.inferSchema(options));
  }

  /** The same relation over LanceTable. */
  static LogicalPlan relation(DataSourceV2Relation relation, Object output) throws Exception {
    PythonTable opened = (PythonTable) relation.table();
    Map stored = SessionEntry.options(relation.catalog(), relation.identifier());
    LanceTable table = stored == null ? opened(opened, relation.options()) : new LanceTable(opened, opened.name(), stored);
    return (LogicalPlan) SparkInternals.with(SparkInternals.with(relation, "table", table), "output", output);
  }

  /** This table at the version that the options select: Spark has loaded a table of a catalog without them. */
  LanceTable atVersion(CaseInsensitiveStringMap options) {
    for (int i = 0; i < VERSIONS.length; i++) if (isCatalogTable && options.containsKey(VERSIONS[i])) return reopened(source(options).options);
    return this;
  }

  /** A table of the session catalog. Spark does not pass its options and location. */
  static LanceTable inCatalog(Table table, Identifier identifier) throws Exception {
    return new LanceTable((PythonTable) table, table.name(), SessionEntry.optionsToOpen(SessionEntry.of(identifier)));
  }

  public String name() { return name; }
  public StructType schema() { return inner.schema(); }
  public Set capabilities() { return new HashSet(inner.capabilities()); }

  /** Adds the capability with which a write WITH SCHEMA EVOLUTION alters the table. Not all versions of Spark have it. */
  static void addEvolution(Set capabilities) {
    TableCapability[] all = TableCapability.values();
    for (int i = 0; i < all.length; i++) if (all[i].name().equals("AUTOMATIC_SCHEMA_EVOLUTION")) capabilities.add(all[i]);
  }

  public MetadataColumn[] metadataColumns() { return MetadataColumns.all(); }

  /** This table with the properties that only DESCRIBE EXTENDED shows. */
  Table detailed(CatalogPlugin catalog, Identifier id) { return this; }

  Source source(CaseInsensitiveStringMap options) { return new Source(inner, withOwn(options), isCatalogTable); }

  /** Lets the next query read the latest version: after a change, a view and a DataFrame of a path show it. */
  void forgetVersion() { Source.close(inner); }

  private CaseInsensitiveStringMap withOwn(CaseInsensitiveStringMap options) { return WriteInfo.over(own, options); }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    Source source = source(Request.without(options));
    return takesColumnsOnly || LancePlanner.isExcluded() || source.isCut() ? new ColumnsBuilder(source) : new LanceScanBuilder(source, options);
  }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) { return new OverwriteBuilder(this, info); }

  /** Of a write that adds rows, or replaces all of them. */
  WriteBuilder plainBuilder(LogicalWriteInfo info) {
    if (isCatalogTable) return inner.newWriteBuilder(new WriteInfo(info, own, SessionEntry.declared(info.schema(), schema())));
    return inner.newWriteBuilder(new RowsInfo(basedOn(info.options()), info.schema(), info.queryId()));
  }

  /** The options with the version that a view of a path has opened: it does not write to another table that was made at the path. */
  private CaseInsensitiveStringMap basedOn(CaseInsensitiveStringMap options) {
    try {
      Source source = source(options);
      if (!source.isOpen() || source.version() == 0) return options;
      Map all = new HashMap(options.asCaseSensitiveMap());
      all.put(BASED_ON, source.version() + " " + source.identity());
      return new CaseInsensitiveStringMap(all);
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
  }

  public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
    LanceOperation.checkNames(info.command(), schema().fieldNames());
    return new LanceOperation(this, info);
  }

  public boolean truncateTable() {
    RowLevelWrite.truncate(this, isCatalogTable);
    return true;
  }

  public boolean equals(Object other) {
    if (!(other instanceof LanceTable)) return false;
    LanceTable table = (LanceTable) other;
    return table.inner == inner && table.own.equals(own) && table.takesColumnsOnly == takesColumnsOnly;
  }

  public int hashCode() { return System.identityHashCode(inner); }
}

/** The pickled data source of one table with its options, and its scans. */
class Source {
  /** Spark opens tables of the session catalog without options. This has the sources opened with options, by PythonDataSourceV2 and options. */
  private static final Map opened = new WeakHashMap();
  /** A limit, and the options that make a search or a change feed of a read (lance_spark.spark.options), as the call of a table function does. */
  private static final String[] CUTS = { "limit", "nearest", "fullTextQuery", "full_text_query", "hybrid", LanceTable.FEED, LanceTable.CALL };
  final PythonTable table;
  final CaseInsensitiveStringMap options;
  private final boolean isCatalogTable;

  Source(PythonTable table, CaseInsensitiveStringMap options, boolean isCatalogTable) {
    this.table = table;
    this.options = options;
    this.isCatalogTable = isCatalogTable;
  }

  PythonDataSourceV2 spark() throws Exception { return (PythonDataSourceV2) SparkInternals.get(table, "ds"); }

  static void close(PythonTable table) {
    try {
      PythonDataSourceV2 spark = (PythonDataSourceV2) SparkInternals.get(table, "ds");
      synchronized (opened) {
        opened.remove(spark);
      }
      SparkInternals.set(spark, "dataSourceInPython", null);
    } catch (Exception e) {
      LancePlanner.LOG.warn("a lance table was changed, but views and DataFrames that exist show the version before", e);
    }
  }

  /** True if the user's options choose rows by more than a condition, so that nothing that Spark pushes may come before them. */
  boolean isCut() {
    for (int i = 0; i < CUTS.length; i++) if (options.containsKey(CUTS[i])) return true;
    return false;
  }

  /** A new PythonDataSourceV2 that Spark has not opened. */
  static PythonDataSourceV2 unopened() {
    PythonDataSourceV2 source = new FormatSource();
    source.setShortName(LancePlanner.SOURCE);
    return source;
  }

  /** The pickled source. It is pinned to the version that was the latest at the first call. */
  private PythonDataSourceCreationResult inPython() throws Exception {
    scala.Option schema = new scala.Some(table.schema());
    if (!isCatalogTable) return spark().getOrCreateDataSourceInPython(table.name(), options, schema);
    synchronized (opened) {
      Map byOptions = (Map) opened.get(spark());
      if (byOptions == null) opened.put(spark(), byOptions = new HashMap());
      PythonDataSourceCreationResult result = (PythonDataSourceCreationResult) byOptions.get(options);
      if (result == null) byOptions.put(options, result = unopened().getOrCreateDataSourceInPython(table.name(), options, schema));
      return result;
    }
  }

  byte[] pickle() throws Exception { return inPython().dataSource(); }

  /** True if the table has a write-ahead log whose rows are read, too: only tasks know how many rows there are. */
  boolean hasLog() {
    try {
      return Marks.after(pickle(), Pickle.LOG_MARK, 0) >= 0;
    } catch (Exception e) {
      return true;
    }
  }

  /** Spark's own batch over the source with the request. */
  Batch batch(String request, StructType schema) throws Exception {
    PythonDataSourceCreationResult result = inPython();
    PythonDataSourceV2 bound = unopened();
    SparkInternals.set(bound, "dataSourceInPython", new PythonDataSourceCreationResult(Pickle.bind(result.dataSource(), request), result.schema()));
    return new PythonBatch(bound, table.name(), schema, options);
  }

  /** The pinned version, which row addresses refer to; 0 if there is no table yet. */
  long version() throws Exception {
    byte[] pickle = inPython().dataSource();
    int at = Marks.after(pickle, Pickle.VERSION_MARK, 16);
    return at < 0 ? 0 : Marks.integer(pickle, at);
  }

  /** The command with the pinned version. */
  ObjectNode noteVersion(ObjectNode command) {
    try {
      return command.put("version", version()).put("identity", identity());
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
  }

  /** True if a version is pinned. */
  boolean isOpen() throws Exception { return SparkInternals.get(spark(), "dataSourceInPython") != null; }

  /** What distinguishes the pinned version from that of another table at the same path; "" if there is no table yet. */
  String identity() throws Exception {
    byte[] pickle = inPython().dataSource();
    int at = Marks.after(pickle, Pickle.VERSION_MARK, 16);
    return at < 0 ? "" : new String(pickle, at + 16, (int) Marks.integer(pickle, at + 8), StandardCharsets.UTF_8);
  }

  /** True for a partitioned namespace, which has a mark in its pickle. */
  boolean isPartitioned() {
    try {
      return Marks.after(inPython().dataSource(), Pickle.PARTITIONED_MARK, 0) >= 0;
    } catch (Exception e) {
      return false;
    }
  }

  /** The part common to all requests on this source. */
  ObjectNode request() {
    ObjectNode request = PlanJson.object().put("parallelism", LancePlanner.session().sparkContext().defaultParallelism());
    return isCatalogTable ? request.put("declared", table.schema().json()) : request;
  }

  boolean isSame(Source other) {
    try {
      return spark() == other.spark() && options.equals(other.options) && isCatalogTable == other.isCatalogTable;
    } catch (Exception e) {
      return false;
    }
  }
}

/** Writing and reading of pickles in Java. */
class Pickle {
  /** The mark before five little-endian signed 64-bit integers (LancePartition in lance_spark.spark.reader). */
  private static final byte[] SIZE_MARK = Marks.mark("LanceSize:");
  /** The mark before two such integers and text (LanceDataSource in lance_spark.spark.source). */
  static final byte[] VERSION_MARK = Marks.mark("LanceVersion:");
  static final byte[] PARTITIONED_MARK = Marks.mark("LancePartitioned:");
  static final byte[] LOG_MARK = Marks.mark("LanceLog:");

  /** The pickle of `lance_spark.spark.commit_again.again(writer)`, in protocol 3. */
  static byte[] again(byte[] writer) {
    try {
      ByteArrayOutputStream out = new ByteArrayOutputStream();
      out.write(new byte[] { (byte) 0x80, 3 });
      out.write("clance_spark.spark.commit_again\nagain\n".getBytes(StandardCharsets.US_ASCII));
      out.write('B');
      writeSized(out, writer);
      out.write(new byte[] { (byte) 0x85, 'R', '.' });
      return out.toByteArray();
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
  }

  /** The pickle of `lance_spark.spark.source.bind(source, request)`, in protocol 3. */
  static byte[] bind(byte[] source, String request) throws Exception {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    out.write(new byte[] { (byte) 0x80, 3 });
    out.write("clance_spark.spark.source\nbind\n".getBytes(StandardCharsets.US_ASCII));
    out.write('B');
    writeSized(out, source);
    out.write('X');
    writeSized(out, request.getBytes(StandardCharsets.UTF_8));
    out.write(new byte[] { (byte) 0x86, 'R', '.' });
    return out.toByteArray();
  }

  private static void writeSized(ByteArrayOutputStream out, byte[] bytes) throws Exception {
    for (int shift = 0; shift < 32; shift += 8) out.write(bytes.length >> shift);
    out.write(bytes);
  }

  /**
   * Rows and bytes of a pickled partition; the numbers of tables of a partitioned namespace: those to be read, and all; and the number of fragments
   * that the scan skips; or null. The first mark is the partition's own, because it precedes all user data.
   */
  static long[] size(byte[] pickle) { return Marks.integers(pickle, SIZE_MARK, 5); }

  /** The names of the indexes that planning used, and the rows that they leave; "" if there are none. They follow the numbers of `size`. */
  static String indexes(byte[] pickle) {
    int at = Marks.after(pickle, SIZE_MARK, 44);
    if (at < 0) return "";
    int size = (int) (Marks.integer(pickle, at + 36) >>> 32);
    return new String(pickle, at + 44, Math.min(size, pickle.length - at - 44), StandardCharsets.UTF_8);
  }
}
