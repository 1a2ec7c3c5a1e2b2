package lancespark.table;

import java.util.*;
import lancespark.core.Session;
import lancespark.core.SparkInternals;
import lancespark.protocol.Instructions;
import lancespark.protocol.Json;
import lancespark.protocol.Names;
import lancespark.scan.ColumnsBuilder;
import lancespark.scan.LanceScanBuilder;
import lancespark.scan.Request;
import lancespark.source.MetadataColumns;
import lancespark.source.RowsInfo;
import lancespark.source.SessionEntry;
import lancespark.source.Source;
import lancespark.source.WriteInfo;
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
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Spark's table of a Python source, with push-down, metadata columns and row-level commands. */
@SuppressWarnings({"rawtypes", "unchecked", "deprecation"})
public class LanceTable implements Table, SupportsRead, SupportsWrite, SupportsMetadataColumns, SupportsRowLevelOperations, TruncatableTable {
  /** The options of a reader that select a version. Spark itself loads a table by versionAsOf and timestampAsOf. */
  private static final String[] VERSIONS = Names.VERSION_OPTIONS.split(" ");
  private final PythonTable inner;
  private final String name;
  private final Map own;
  private final boolean isCatalogTable, takesColumnsOnly;

  /** A table of a catalog. `own` has the options with which it is opened, such as its path. Errors and explain show the name. */
  public LanceTable(PythonTable inner, String name, Map own) { this(inner, name, own, true, false); }

  public LanceTable(LanceTable table) { this(table.inner, table.name, table.own, table.isCatalogTable, table.takesColumnsOnly); }

  private LanceTable(PythonTable inner, String name, Map own, boolean isCatalogTable, boolean takesColumnsOnly) {
    this.inner = inner;
    this.name = name;
    this.own = own;
    this.isCatalogTable = isCatalogTable;
    this.takesColumnsOnly = takesColumnsOnly;
  }

  /** The lance table that is scanned for a query or a row-level command; null if it is another table. */
  public static LanceTable scanned(Table table) {
    if (table instanceof LanceTable) return (LanceTable) table;
    boolean isCommand = table instanceof RowLevelOperationTable && ((RowLevelOperationTable) table).operation() instanceof LanceOperation;
    return isCommand ? ((LanceOperation) ((RowLevelOperationTable) table).operation()).table : null;
  }

  public LanceTable takingColumnsOnly() { return new LanceTable(inner, name, own, isCatalogTable, true); }

  /** A table that Spark has opened with these options. */
  public static LanceTable opened(PythonTable table, CaseInsensitiveStringMap options) {
    return new LanceTable(table, table.name(), options.asCaseSensitiveMap(), false, false);
  }

  /** A table that is opened now, with these options. */
  public static LanceTable reopened(CaseInsensitiveStringMap options) { return opened(python(options), options); }

  public static PythonTable python(CaseInsensitiveStringMap options) {
    PythonDataSourceV2 source = Source.unopened();
    return new PythonTable(source, Names.FORMAT, source.inferSchema(options));
  }

  /** The same relation over LanceTable. */
  public static LogicalPlan relation(DataSourceV2Relation relation, Object output) {
    LanceTable table = opened((PythonTable) relation.table(), relation.options());
    return (LogicalPlan) SparkInternals.with(SparkInternals.with(relation, "table", table), "output", output);
  }

  /** This table at the version that the options select: Spark has loaded a table of a catalog without them. */
  public LanceTable atVersion(CaseInsensitiveStringMap options) {
    for (int i = 0; i < VERSIONS.length; i++) if (isCatalogTable && options.containsKey(VERSIONS[i])) return reopened(source(options).options);
    return this;
  }

  public String name() { return name; }
  public StructType schema() { return inner.schema(); }
  public Set capabilities() { return new HashSet(inner.capabilities()); }

  /** Adds the capability with which a write WITH SCHEMA EVOLUTION alters the table. Not all versions of Spark have it. */
  public static void addEvolution(Set capabilities) {
    TableCapability[] all = TableCapability.values();
    for (int i = 0; i < all.length; i++) if (all[i].name().equals("AUTOMATIC_SCHEMA_EVOLUTION")) capabilities.add(all[i]);
  }

  public MetadataColumn[] metadataColumns() { return MetadataColumns.all(); }

  /** This table with the properties that only DESCRIBE EXTENDED shows. */
  public Table detailed(CatalogPlugin catalog, Identifier id) { return this; }

  /** Called on the driver after a commit through this table. `changesColumns`: the table may have other columns now. */
  public void noteCommit(boolean changesColumns) {}

  /** The write with what its commits must note. */
  public Write noting(Write write, LogicalWriteInfo info) { return write; }

  public Source source(CaseInsensitiveStringMap options) { return new Source(inner, withOwn(options)); }

  /** Lets the next query read the latest version: after a change, a view and a DataFrame of a path show it. */
  public void forgetVersion() { Source.close(inner); }

  private CaseInsensitiveStringMap withOwn(CaseInsensitiveStringMap options) { return WriteInfo.over(own, options); }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    Source source = source(Request.without(options));
    return takesColumnsOnly || Session.isPushDownExcluded() ? new ColumnsBuilder(source) : new LanceScanBuilder(source, options);
  }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) { return new OverwriteBuilder(this, info); }

  /** Of a write that adds rows, or replaces all of them. */
  public WriteBuilder plainBuilder(LogicalWriteInfo info) {
    if (isCatalogTable) return inner.newWriteBuilder(new WriteInfo(info, own, SessionEntry.declared(info.schema(), schema())));
    return inner.newWriteBuilder(new RowsInfo(basedOn(info.options()), info.schema(), info.queryId()));
  }

  /** The options with the version that a view of a path has opened: it does not write to another table that was made at the path. */
  private CaseInsensitiveStringMap basedOn(CaseInsensitiveStringMap options) {
    try {
      Source source = source(options);
      if (!source.isOpen() || source.version() == 0) return options;
      Map all = new HashMap(options.asCaseSensitiveMap());
      Instructions.put(all, Instructions.BASED_ON, source.noteVersion(Json.object()));
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
