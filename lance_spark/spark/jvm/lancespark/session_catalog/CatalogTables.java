package lancespark.session_catalog;

import java.util.*;
import lancespark.core.EntryCatalog;
import lancespark.core.Features;
import lancespark.core.HandOver;
import lancespark.core.ReplaceGuard;
import lancespark.core.Session;
import lancespark.core.SparkInternals;
import lancespark.core.Walk;
import lancespark.protocol.Names;
import lancespark.source.SessionEntry;
import lancespark.source.Source;
import lancespark.source.WriteInfo;
import lancespark.table.LanceTable;
import lancespark.table.RowLevelWrite;
import lancespark.table.TakingAnyRows;
import org.apache.spark.sql.catalyst.analysis.NamedRelation;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.plans.logical.AlterTableCommand;
import org.apache.spark.sql.catalyst.plans.logical.CreateTable;
import org.apache.spark.sql.catalyst.plans.logical.CreateTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.DescribeRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTable;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.TableSpec;
import org.apache.spark.sql.catalyst.plans.logical.TableSpecBase;
import org.apache.spark.sql.catalyst.plans.logical.V2CreateTablePlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.execution.command.CreateViewCommand;
import org.apache.spark.sql.execution.datasources.CreateTempViewUsing;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWrite;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The optimizer rule for statements that create or write tables of the session catalog. Spark itself passes neither the options nor the location
 * of such a table to a Python source. Writes of lance rows to any place get their metrics here, too.
 */
public class CatalogTables extends Rule {
  static final String SETTING = "storage.";
  private static final String HIDDEN = SETTING + "secret.";

  public CatalogTables() {}

  public String ruleName() { return "lance_spark.CatalogTables"; }

  public TreeNode apply(TreeNode plan) {
    if (plan instanceof V2CreateTablePlan) refusePartitions((V2CreateTablePlan) plan);
    try {
      return new Statements().in((LogicalPlan) plan);
    } catch (UnsupportedOperationException e) {
      throw e;
    } catch (Throwable t) {
      Session.LOG.warn("a statement on a lance table failed to get the table's options and runs without them", t);
      return plan;
    }
  }

  /** A statement with several INSERTs is one plan with several children. */
  static class Statements extends Walk {
    public LogicalPlan changed(LogicalPlan plan) throws Exception {
      if (plan instanceof AlterTableCommand) return alteration((AlterTableCommand) plan);
      if (plan instanceof CreateTableAsSelect) plan = creation((CreateTableAsSelect) plan);
      if (plan instanceof ReplaceTable || plan instanceof ReplaceTableAsSelect) plan = replacement(plan);
      if (plan instanceof CreateTableAsSelect || plan instanceof ReplaceTableAsSelect) plan = withSettings(plan);
      if (plan instanceof CreateTable && isLance((CreateTable) plan)) plan = withNote((CreateTable) plan);
      if (plan instanceof V2CreateTablePlan && isLance((V2CreateTablePlan) plan)) {
        TableSpecBase table = (TableSpecBase) SparkInternals.argument((scala.Product) plan, "tableSpec");
        check(CollectionConverters.asJava(table.properties()), ((V2CreateTablePlan) plan).tableSchema());
        return withHiddenSettings(plan);
      }
      if (plan instanceof CreateTempViewUsing && Names.FORMAT.equalsIgnoreCase(((CreateTempViewUsing) plan).provider())) {
        return withHiddenSettings(plan);
      }
      if (plan instanceof CreateViewCommand) return viewed((CreateViewCommand) plan);
      if (plan instanceof DescribeRelation && ((DescribeRelation) plan).isExtended()) return detailed((DescribeRelation) plan);
      if (plan instanceof ResolvedTable && isInCatalog((ResolvedTable) plan)) return described((ResolvedTable) plan);
      if (plan.getClass().getSimpleName().equals("WriteToDataSourceV2")) return streamed(plan);
      return plan instanceof V2WriteCommand ? noted(measured(write((V2WriteCommand) plan))) : plan;
    }
  }

  /** The tables of a temporary view over a DataFrame, where the view uses their metadata columns. */
  static class ViewedTables extends Walk {
    public LogicalPlan changed(LogicalPlan plan) throws Exception {
      if (!(plan instanceof DataSourceV2Relation) || !(((DataSourceV2Relation) plan).table() instanceof LanceTable)) return plan;
      DataSourceV2Relation relation = (DataSourceV2Relation) plan;
      boolean hasMore = relation.output().length() > relation.table().schema().length();
      return hasMore ? (LogicalPlan) SparkInternals.with(relation, "catalog", scala.Option.empty()) : plan;
    }
  }

  /** Spark would load the tables of a view from the session catalog again, whose tables have no metadata columns, and then refuse the view. */
  private static LogicalPlan viewed(CreateViewCommand view) throws Exception {
    LogicalPlan query = new ViewedTables().in(view.plan());
    return query == view.plan() ? view : (LogicalPlan) SparkInternals.with(view, "plan", query);
  }

  /** Rejects partitions, because Spark's catalog would record them although the table has none. */
  private static void refusePartitions(V2CreateTablePlan plan) {
    if (isLance(plan) && !plan.partitioning().isEmpty()) {
      throw new UnsupportedOperationException("lance tables have no partitions, buckets or clusters: leave out PARTITIONED BY, CLUSTERED BY and "
          + "CLUSTER BY (partitionBy, bucketBy, clusterBy). Conditions on any column are pushed into the scan");
    }
  }

  /** Changes of columns are made in the table, too: Spark changes only what its catalog has of them. */
  private static LogicalPlan alteration(AlterTableCommand plan) {
    if (!(plan.table() instanceof ResolvedTable) || !isInCatalog((ResolvedTable) plan.table())) return (LogicalPlan) plan;
    ResolvedTable table = (ResolvedTable) plan.table();
    if (table.catalog() instanceof EntryCatalog) return (LogicalPlan) plan;
    boolean isOfCatalog = true;
    Map properties = new HashMap();
    Iterator it = CollectionConverters.asJava(plan.changes()).iterator();
    while (it.hasNext()) {
      Object change = it.next();
      if (change instanceof TableChange.SetProperty) properties.put(((TableChange.SetProperty) change).property(), "");
      isOfCatalog &= change instanceof TableChange.SetProperty || change instanceof TableChange.RemoveProperty;
    }
    if (properties.containsKey("location")) {
      throw new UnsupportedOperationException("ALTER TABLE .. SET LOCATION is not supported: a lance table stays where its versions are. "
          + "Give the table at another place a name of its own: CREATE TABLE .. USING lance LOCATION");
    }
    if (!properties.isEmpty()) check(properties, null);
    if (isOfCatalog) return (LogicalPlan) plan;
    EntryCatalog altering = EntryCatalog.over(table.catalog());
    if (altering == null) throw new UnsupportedOperationException("ALTER TABLE would change only Spark's catalog: " + Features.complaint("alteration"));
    return (LogicalPlan) SparkInternals.with((scala.Product) plan, "table", SparkInternals.with(table, "catalog", altering));
  }

  /** Refuses what Spark's catalog would take: properties that look like those of lance tables and are none, and names of columns. */
  private static void check(Map properties, StructType columns) {
    EntryCatalog entries = EntryCatalog.known();
    if (entries != null) entries.check(properties, columns);
  }

  /** A lance table of the session catalog. */
  private static boolean isInCatalog(ResolvedTable plan) { return plan.catalog().name().equals("spark_catalog") && Source.isOf(plan.table()); }

  /** With everything that the catalog has of the table, for SHOW CREATE TABLE, SHOW TBLPROPERTIES and DESCRIBE. */
  private static LogicalPlan described(ResolvedTable plan) throws Exception {
    return (LogicalPlan) SparkInternals.with(plan, "table", new DescribedTable(plan.table(), new V1Table(SessionEntry.of(plan.identifier()))));
  }

  /** DESCRIBE EXTENDED shows more of a table of a NamespaceCatalog than its properties. */
  private static LogicalPlan detailed(DescribeRelation plan) {
    if (!(plan.relation() instanceof ResolvedTable) || !(((ResolvedTable) plan.relation()).table() instanceof LanceTable)) return plan;
    ResolvedTable table = (ResolvedTable) plan.relation();
    Table detailed = ((LanceTable) table.table()).detailed(table.catalog(), table.identifier());
    return (LogicalPlan) SparkInternals.with(plan, "relation", SparkInternals.with(table, "table", detailed));
  }

  /** True if a statement creates a lance table. */
  private static boolean isLance(V2CreateTablePlan plan) {
    Object[] arguments = SparkInternals.arguments((scala.Product) plan);
    for (int i = 0; i < arguments.length; i++) {
      if (!(arguments[i] instanceof TableSpecBase)) continue;
      scala.Option provider = ((TableSpecBase) arguments[i]).provider();
      Object name = provider.isEmpty() ? Session.setting("spark.sql.sources.default", "") : provider.get();
      return Names.FORMAT.equalsIgnoreCase((String) name);
    }
    return false;
  }

  /** Makes CREATE TABLE .. AS SELECT fail if a table exists at the location, instead of appending to it. */
  private static LogicalPlan creation(CreateTableAsSelect plan) throws Exception {
    Map options = new HashMap(CollectionConverters.asJava(plan.writeOptions()));
    if (!isLance(plan) || "create".equals(options.put("write_mode", "create"))) return plan;
    return (LogicalPlan) SparkInternals.with(plan, "writeOptions", scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(options)));
  }

  /** Keeps the storage options of saveAsTable with the table, which cannot be read without. Spark takes them for options of the write only. */
  private static LogicalPlan withSettings(LogicalPlan plan) throws Exception {
    Object name = SparkInternals.argument((scala.Product) plan, "name"), spec = SparkInternals.argument((scala.Product) plan, "tableSpec");
    boolean isSession = name instanceof ResolvedIdentifier && ((ResolvedIdentifier) name).catalog().name().equals("spark_catalog");
    if (!isSession || !isLance((V2CreateTablePlan) plan) || !(spec instanceof TableSpec) || !((TableSpec) spec).options().isEmpty()) return plan;
    Object given = SparkInternals.argument((scala.Product) plan, "writeOptions");
    Map settings = new HashMap();
    Iterator it = CollectionConverters.asJava((scala.collection.immutable.Map) given).entrySet().iterator();
    while (it.hasNext()) {
      Map.Entry option = (Map.Entry) it.next();
      if (((String) option.getKey()).toLowerCase(Locale.ROOT).startsWith(SETTING)) settings.put(option.getKey(), option.getValue());
    }
    if (settings.isEmpty()) return plan;
    Object options = scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(settings));
    return (LogicalPlan) SparkInternals.with((scala.Product) plan, "tableSpec", SparkInternals.with((TableSpec) spec, "options", options));
  }

  /** If a statement replaces a lance table by another, moves it to a catalog that replaces tables in one commit. */
  private static LogicalPlan replacement(LogicalPlan plan) throws Exception {
    Object name = SparkInternals.argument((scala.Product) plan, "name");
    if (!(name instanceof ResolvedIdentifier) || !isLance((V2CreateTablePlan) plan)) return plan;
    CatalogPlugin catalog = ((ResolvedIdentifier) name).catalog();
    if (!(catalog instanceof TableCatalog) || catalog instanceof ReplacingCatalog) return plan;
    if (!ReplaceGuard.hasLanceTable((TableCatalog) catalog, ((ResolvedIdentifier) name).identifier())) return plan;
    scala.Product replacing = SparkInternals.with((scala.Product) name, "catalog", new ReplacingCatalog(catalog));
    return (LogicalPlan) SparkInternals.with((scala.Product) plan, "name", replacing);
  }

  /**
   * Spark writes the options of a new table or view to its event log and web UI. It hides options whose names match spark.redaction.regex (for
   * tables, always its default). Therefore storage options are replaced by their aliases, which match.
   */
  private static LogicalPlan withHiddenSettings(LogicalPlan plan) throws Exception {
    Object[] arguments = SparkInternals.arguments((scala.Product) plan);
    boolean changed = false;
    for (int i = 0; i < arguments.length; i++) {
      Object old = arguments[i];
      if (old instanceof scala.collection.immutable.Map) arguments[i] = hidden((scala.collection.immutable.Map) old);
      if (old instanceof TableSpec) arguments[i] = withHiddenSettings((TableSpec) old);
      changed = changed || arguments[i] != old;
    }
    return changed ? (LogicalPlan) SparkInternals.copy((scala.Product) plan, arguments) : plan;
  }

  private static TableSpec withHiddenSettings(TableSpec table) {
    scala.collection.immutable.Map options = hidden(table.options());
    return options == table.options() ? table : (TableSpec) SparkInternals.with(table, "options", options);
  }

  static scala.collection.immutable.Map hidden(scala.collection.immutable.Map options) {
    Map renamed = new HashMap();
    boolean changed = false;
    Iterator it = CollectionConverters.asJava(options).entrySet().iterator();
    while (it.hasNext()) {
      Map.Entry entry = (Map.Entry) it.next();
      String name = (String) entry.getKey(), small = name.toLowerCase(Locale.ROOT);
      boolean isSetting = small.startsWith(SETTING) && !small.startsWith(HIDDEN);
      changed = changed || isSetting;
      renamed.put(isSetting ? HIDDEN + name.substring(SETTING.length()) : name, entry.getValue());
    }
    return changed ? scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(renamed)) : options;
  }

  /** A planned write to a table of the session catalog. The statement's options take precedence over the table's. */
  private static LogicalPlan write(V2WriteCommand command) throws Exception {
    if (!(command.table() instanceof DataSourceV2Relation) || !(command instanceof scala.Product)) return (LogicalPlan) command;
    DataSourceV2Relation relation = (DataSourceV2Relation) command.table();
    Map options = Source.isOf(relation.table()) ? SessionEntry.options(relation.catalog(), relation.identifier()) : null;
    if (options == null) return (LogicalPlan) command;
    Object[] arguments = SparkInternals.arguments((scala.Product) command);
    boolean changed = false;
    for (int i = 0; i < arguments.length; i++) {
      if (!(arguments[i] instanceof scala.Some) || !(((scala.Some) arguments[i]).get() instanceof PythonWrite)) continue;
      PythonWrite write = (PythonWrite) ((scala.Some) arguments[i]).get();
      LogicalWriteInfo info = (LogicalWriteInfo) SparkInternals.get(write, "info");
      if (info instanceof WriteInfo) continue;
      boolean truncate = ((Boolean) SparkInternals.get(write, "isTruncate")).booleanValue();
      String name = (String) SparkInternals.get(write, "shortName");
      // It replaces rows. Statements that replace columns, too, do not come here.
      if (truncate) options.put(Names.OVERWRITE_SCHEMA, "false");
      LogicalWriteInfo full = new WriteInfo(info, options, SessionEntry.declared(info.schema(), relation.table().schema()));
      arguments[i] = new scala.Some(new PythonWrite((PythonDataSourceV2) SparkInternals.get(write, "ds"), name, full, truncate));
      changed = true;
    }
    return (LogicalPlan) (changed ? SparkInternals.copy((scala.Product) command, arguments) : command);
  }

  /** A new table without columns has those of the table that is at its location. */
  private static LogicalPlan withNote(CreateTable plan) throws Exception {
    Object name = SparkInternals.argument(plan, "name"), spec = SparkInternals.argument(plan, "tableSpec");
    Object columns = SparkInternals.argument(plan, "columns");
    boolean isInSession = name instanceof ResolvedIdentifier && ((ResolvedIdentifier) name).catalog().name().equals("spark_catalog");
    if (!isInSession || !(spec instanceof TableSpec) || !((scala.collection.immutable.Seq) columns).isEmpty()) return plan;
    Map properties = new HashMap(CollectionConverters.asJava((scala.collection.immutable.Map) SparkInternals.argument((TableSpec) spec, "properties")));
    properties.put(Names.WRITTEN, "true");
    Object all = scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(properties));
    return (LogicalPlan) SparkInternals.with(plan, "tableSpec", SparkInternals.with((TableSpec) spec, "properties", all));
  }

  /** The lance table of the session catalog that is the target of a write; null if it is another table. */
  private static Identifier inSession(Object target) throws Exception {
    if (!(target instanceof DataSourceV2Relation)) return null;
    DataSourceV2Relation relation = (DataSourceV2Relation) target;
    boolean isLance = relation.table() instanceof LanceTable || Source.isOf(relation.table());
    if (!isLance || SessionEntry.options(relation.catalog(), relation.identifier()) == null) return null;
    return (Identifier) relation.identifier().get();
  }

  /** A batch of a stream to a table of the session catalog. It may make the first version, and add columns. */
  private static LogicalPlan streamed(LogicalPlan write) throws Exception {
    scala.Option target = (scala.Option) SparkInternals.argument((scala.Product) write, "relation");
    BatchWrite batch = (BatchWrite) SparkInternals.argument((scala.Product) write, "batchWrite");
    Identifier id = target.isEmpty() || batch instanceof NotedBatch ? null : inSession(target.get());
    return id == null ? write : (LogicalPlan) SparkInternals.with((scala.Product) write, "batchWrite", new NotedBatch(batch, id, true));
  }

  /** A planned write to a table of the session catalog that is its first one or may change its columns: its commit is noted in the catalog. */
  private static LogicalPlan noted(LogicalPlan command) throws Exception {
    NamedRelation target = ((V2WriteCommand) (Object) command).table();
    Identifier id = command instanceof scala.Product ? inSession(target) : null;
    if (id == null) return command;
    Table table = ((DataSourceV2Relation) target).table();
    boolean changesColumns = table instanceof TakingAnyRows && ((TakingAnyRows) table).changesColumns();
    if (!changesColumns && SessionEntry.isWritten(SessionEntry.of(id))) return command;
    Object[] arguments = SparkInternals.arguments((scala.Product) command);
    boolean isPlanned = false;
    for (int i = 0; i < arguments.length; i++) {
      Object write = arguments[i] instanceof scala.Some ? ((scala.Some) arguments[i]).get() : null;
      if (!(write instanceof Write) || write instanceof NotedWrite) continue;
      arguments[i] = new scala.Some(new NotedWrite((Write) write, id, changesColumns));
      isPlanned = true;
    }
    return isPlanned ? (LogicalPlan) SparkInternals.copy((scala.Product) command, arguments) : command;
  }

  /** A planned write of lance rows, with its metrics. */
  private static LogicalPlan measured(LogicalPlan command) throws Exception {
    if (!(command instanceof scala.Product)) return command;
    Object[] arguments = SparkInternals.arguments((scala.Product) command);
    boolean changed = false;
    for (int i = 0; i < arguments.length; i++) {
      Object write = arguments[i] instanceof scala.Some ? ((scala.Some) arguments[i]).get() : null;
      boolean isPython = write instanceof PythonWrite && Names.FORMAT.equalsIgnoreCase((String) SparkInternals.get(write, "shortName"));
      if (!isPython && !(write instanceof RowLevelWrite) && !(write instanceof ReplacingWrite)) continue;
      arguments[i] = new scala.Some(HandOver.ofWrites().measured((Write) write));
      changed = true;
    }
    return changed ? (LogicalPlan) SparkInternals.copy((scala.Product) command, arguments) : command;
  }
}
