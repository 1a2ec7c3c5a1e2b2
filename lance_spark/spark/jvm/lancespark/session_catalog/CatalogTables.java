package lancespark.session_catalog;

import java.util.*;
import lancespark.catalog.NamedTable;
import lancespark.core.HandOver;
import lancespark.core.Session;
import lancespark.core.SessionCatalogs;
import lancespark.core.SparkInternals;
import lancespark.core.Walk;
import lancespark.protocol.Names;
import lancespark.source.SessionEntry;
import lancespark.table.LanceTable;
import lancespark.table.RowLevelWrite;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.plans.logical.CreateTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.DescribeRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTable;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.ShowCreateTable;
import org.apache.spark.sql.catalyst.plans.logical.TableSpec;
import org.apache.spark.sql.catalyst.plans.logical.TableSpecBase;
import org.apache.spark.sql.catalyst.plans.logical.V2CreateTablePlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.execution.datasources.CreateTempViewUsing;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWrite;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The optimizer rule for statements that create tables of the session catalog, where Spark's plan says something else than what SessionTables must
 * get. Writes of lance rows to any place get their metrics here, too.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
public class CatalogTables extends Rule {
  static final String SETTING = "storage.";
  private static final String HIDDEN = SETTING + "secret.";

  public CatalogTables() {}

  public String ruleName() { return "lance_spark.CatalogTables"; }

  public TreeNode apply(TreeNode plan) {
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
    public LogicalPlan changed(LogicalPlan plan) {
      if (plan instanceof CreateTableAsSelect) plan = creation((CreateTableAsSelect) plan);
      if (plan instanceof ReplaceTable || plan instanceof ReplaceTableAsSelect) plan = replacement(plan);
      if (plan instanceof CreateTableAsSelect || plan instanceof ReplaceTableAsSelect) plan = withSettings(plan);
      if (plan instanceof V2CreateTablePlan && isLance((V2CreateTablePlan) plan)) {
        checkColumns((scala.Product) plan);
        return withHiddenSettings(plan);
      }
      if (plan instanceof CreateTempViewUsing && Names.FORMAT.equalsIgnoreCase(((CreateTempViewUsing) plan).provider())) {
        return withHiddenSettings(plan);
      }
      if (plan instanceof DescribeRelation && ((DescribeRelation) plan).isExtended()) return detailed((DescribeRelation) plan);
      if (plan instanceof ShowCreateTable) return unclustered((ShowCreateTable) plan);
      return plan instanceof V2WriteCommand ? measured(plan) : plan;
    }
  }

  /** Refuses GENERATED columns of the session catalog, which keeps none. */
  private static void checkColumns(scala.Product plan) {
    Object name = SparkInternals.argument(plan, "name");
    if (!(name instanceof ResolvedIdentifier) || !((ResolvedIdentifier) name).catalog().name().equals(SessionCatalogs.SESSION)) return;
    Object[] arguments = SparkInternals.arguments(plan);
    for (int i = 0; i < arguments.length; i++) {
      if (!(arguments[i] instanceof scala.collection.immutable.Seq)) continue;
      Iterator columns = CollectionConverters.asJava((scala.collection.immutable.Seq) arguments[i]).iterator();
      while (columns.hasNext()) {
        Object column = columns.next();
        if (!column.getClass().getSimpleName().equals("ColumnDefinition") || !isGenerated((scala.Product) column)) continue;
        throw new UnsupportedOperationException("Spark's session catalog keeps no GENERATED columns; write CREATE TABLE lance.db.t (..) in a catalog of "
            + "lance_spark.catalog, and CREATE TABLE t USING lance LOCATION with the location of that table");
      }
    }
  }

  private static boolean isGenerated(scala.Product column) {
    for (int i = 0; i < column.productArity(); i++) {
      String part = column.productElementName(i);
      boolean saysHow = part.equals("generationExpression") || part.equals("identityColumnSpec");
      if (saysHow && !((scala.Option) column.productElement(i)).isEmpty()) return true;
    }
    return false;
  }

  /** DESCRIBE EXTENDED shows more of a table than its properties. */
  private static LogicalPlan detailed(DescribeRelation plan) {
    if (!(plan.relation() instanceof ResolvedTable) || !(((ResolvedTable) plan.relation()).table() instanceof LanceTable)) return plan;
    ResolvedTable table = (ResolvedTable) plan.relation();
    Table detailed = ((LanceTable) table.table()).detailed(table.catalog(), table.identifier());
    return (LogicalPlan) SparkInternals.with(plan, "relation", SparkInternals.with(table, "table", detailed));
  }

  private static LogicalPlan unclustered(ShowCreateTable plan) {
    if (!(plan.child() instanceof ResolvedTable) || !(((ResolvedTable) plan.child()).table() instanceof NamedTable)) return plan;
    ResolvedTable table = (ResolvedTable) plan.child();
    Table unclustered = ((NamedTable) table.table()).unclustered();
    return (LogicalPlan) SparkInternals.with(plan, "child", SparkInternals.with(table, "table", unclustered));
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
  private static LogicalPlan creation(CreateTableAsSelect plan) {
    Map options = new HashMap(CollectionConverters.asJava(plan.writeOptions()));
    if (!isLance(plan) || "create".equals(options.put(Names.WRITE_MODE, "create"))) return plan;
    return (LogicalPlan) SparkInternals.with(plan, "writeOptions", scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(options)));
  }

  /** Keeps the storage options of saveAsTable with the table, which cannot be read without. Spark takes them for options of the write only. */
  private static LogicalPlan withSettings(LogicalPlan plan) {
    Object name = SparkInternals.argument((scala.Product) plan, "name"), spec = SparkInternals.argument((scala.Product) plan, "tableSpec");
    boolean isSession = name instanceof ResolvedIdentifier && ((ResolvedIdentifier) name).catalog().name().equals(SessionCatalogs.SESSION);
    if (!isSession || !isLance((V2CreateTablePlan) plan) || !(spec instanceof TableSpec) || !((TableSpec) spec).options().isEmpty()) return plan;
    Object given = SparkInternals.argument((scala.Product) plan, "writeOptions");
    Map settings = new HashMap();
    for (Map.Entry option : CollectionConverters.asJava((scala.collection.immutable.Map<?, ?>) given).entrySet()) {
      if (((String) option.getKey()).toLowerCase(Locale.ROOT).startsWith(SETTING)) settings.put(option.getKey(), option.getValue());
    }
    if (settings.isEmpty()) return plan;
    Object options = scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(settings));
    return (LogicalPlan) SparkInternals.with((scala.Product) plan, "tableSpec", SparkInternals.with((TableSpec) spec, "options", options));
  }

  /** If a statement replaces a lance table by another, moves it to a catalog that replaces tables in one commit. */
  private static LogicalPlan replacement(LogicalPlan plan) {
    Object name = SparkInternals.argument((scala.Product) plan, "name");
    if (!(name instanceof ResolvedIdentifier) || !isLance((V2CreateTablePlan) plan)) return plan;
    CatalogPlugin catalog = ((ResolvedIdentifier) name).catalog();
    if (!(catalog instanceof TableCatalog) || catalog instanceof ReplacingCatalog) return plan;
    if (!catalog.name().equals(SessionCatalogs.SESSION) || !SessionEntry.isLance(((ResolvedIdentifier) name).identifier())) return plan;
    scala.Product replacing = SparkInternals.with((scala.Product) name, "catalog", new ReplacingCatalog(catalog));
    return (LogicalPlan) SparkInternals.with((scala.Product) plan, "name", replacing);
  }

  /**
   * Spark writes the options of a new table or view to its event log and web UI. It hides options whose names match spark.redaction.regex (for
   * tables, always its default). Therefore storage options are replaced by their aliases, which match.
   */
  private static LogicalPlan withHiddenSettings(LogicalPlan plan) {
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

  static scala.collection.immutable.Map<String, String> hidden(scala.collection.immutable.Map<String, String> options) {
    Map renamed = new HashMap();
    boolean changed = false;
    for (Map.Entry entry : CollectionConverters.asJava(options).entrySet()) {
      String name = (String) entry.getKey(), small = name.toLowerCase(Locale.ROOT);
      boolean isSetting = small.startsWith(SETTING) && !small.startsWith(HIDDEN);
      changed = changed || isSetting;
      renamed.put(isSetting ? HIDDEN + name.substring(SETTING.length()) : name, entry.getValue());
    }
    return changed ? scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(renamed)) : options;
  }

  /** A planned write of lance rows, with its metrics. */
  private static LogicalPlan measured(LogicalPlan command) {
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
