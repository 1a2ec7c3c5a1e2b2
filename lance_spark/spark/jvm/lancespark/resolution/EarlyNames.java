package lancespark.resolution;

import java.util.*;
import lancespark.core.Addition;
import lancespark.core.OfLanceTables;
import lancespark.core.RuleBuilder;
import lancespark.core.Session;
import lancespark.core.SessionCatalogs;
import lancespark.core.SparkInternals;
import lancespark.core.Walk;
import lancespark.protocol.Names;
import lancespark.source.SessionEntry;
import lancespark.table.LanceTable;
import lancespark.table.WholeTable;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedNamespace;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.plans.logical.AppendData$;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTable;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTableAsSelect;
import org.apache.spark.sql.catalyst.plans.logical.ShowViews;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.TableSpecBase;
import org.apache.spark.sql.catalyst.plans.logical.V2CreateTablePlan;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.execution.datasources.CreateTable;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The rule that runs before Spark looks up the tables of a statement: where its own rules would refuse a lance table at once.
 *
 * It makes writes with mergeSchema those WITH SCHEMA EVOLUTION, where Spark has that: otherwise it compares their columns with those of the table first. It inserts into the table of a temporary view
 * that is a text of SQL: Spark takes only the views of DataFrames as targets of INSERT. It takes Spark's default source for no format where
 * saveAsTable and createTable make a table in a catalog of lance tables, and where DataFrames append to a lance table of the session catalog, or replace it.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
public class EarlyNames extends Rule implements Addition {
  private static final String MERGES_ALWAYS = "spark.lance.mergeSchema";

  public EarlyNames() {}

  public String ruleName() { return "lance_spark.EarlyNames"; }

  public TreeNode apply(TreeNode plan) {
    if (plan instanceof V2CreateTablePlan) plan = withoutDefaultFormat((V2CreateTablePlan) plan);
    if (plan instanceof CreateTable) plan = appended((CreateTable) plan);
    return new Writes().in(new Insertions().in(new Targets().in((LogicalPlan) plan)));
  }

  /**
   * Says of a view in a catalog of lance tables that it is no table, and what to write: Spark says the first only. It would ignore options of a read of a view, such
   * as those that choose a version or read changes.
   */
  static class Targets extends Walk {
    public LogicalPlan changed(LogicalPlan plan) {
      if (plan instanceof ShowViews) checkNotOfLance(((ShowViews) plan).namespace());
      boolean isRead = plan instanceof UnresolvedRelation && !((UnresolvedRelation) plan).isStreaming();
      if (isRead && !((UnresolvedRelation) plan).clearWritePrivileges().options().isEmpty()) {
        UnresolvedRelation read = (UnresolvedRelation) plan;
        String name = viewOfLance((scala.collection.immutable.Seq) read.multipartIdentifier());
        if (name != null) throw new UnsupportedOperationException(name + " is a view, which takes no options; write them with the name of its table");
      }
      if (!(plan instanceof UnresolvedTable)) return plan;
      String name = viewOfLance((scala.collection.immutable.Seq) ((UnresolvedTable) plan).multipartIdentifier());
      if (name != null) throw WholeTable.isView(name);
      return plan;
    }

    /** The name of a view in a catalog of lance tables; null for those of others. */
    private static String viewOfLance(scala.collection.immutable.Seq parts) {
      List names = CollectionConverters.asJava(parts);
      boolean isTemporary = Session.active().sessionState().catalog().isTempView(parts);
      return !isTemporary && hasOnlyLanceTables(names) && isView(names) ? String.join(".", names) : null;
    }

    /** The statement never comes here: this is `listViews` of spark.catalog, whose rows Spark itself makes. */
    private static void checkNotOfLance(LogicalPlan namespace) {
      List names = new ArrayList();
      if (namespace instanceof UnresolvedNamespace) names.addAll(CollectionConverters.asJava(((UnresolvedNamespace) namespace).multipartIdentifier()));
      SessionCatalogs manager = SessionCatalogs.active();
      boolean isNamed = !names.isEmpty() && manager.isCatalogRegistered((String) names.get(0));
      CatalogPlugin catalog = isNamed ? manager.catalog((String) names.get(0)) : manager.currentCatalog();
      if (!(catalog instanceof OfLanceTables)) return;
      throw new UnsupportedOperationException("listViews lists the views of Spark's own catalog; write spark.sql(\"SHOW VIEWS IN "
          + (isNamed ? "" : catalog.name() + ".") + String.join(".", names) + "\")");
    }

    private static boolean isView(List names) {
      SessionCatalogs manager = SessionCatalogs.active();
      List id = manager.hasCatalog(names) ? names.subList(1, names.size()) : names;
      List above = id.subList(0, id.size() - 1);
      boolean isAlone = names.size() == 1;
      String[] namespace = isAlone ? manager.currentNamespace() : (String[]) above.toArray(new String[above.size()]);
      try {
        Table found = ((TableCatalog) manager.of(names)).loadTable(Identifier.of(namespace, (String) id.get(id.size() - 1)));
        return found instanceof V1Table;
      } catch (Throwable t) {
        return false;  // Spark loads the table, too, and says why it cannot.
      }
    }
  }

  /** INSERT into temporary views of all rows and columns of a lance table. Spark refuses the others. */
  static class Insertions extends Walk {
    public LogicalPlan changed(LogicalPlan plan) {
      if (!(plan instanceof InsertIntoStatement) || !(((InsertIntoStatement) plan).table() instanceof UnresolvedRelation)) return plan;
      UnresolvedRelation view = (UnresolvedRelation) ((InsertIntoStatement) plan).table();
      if (!Session.active().sessionState().catalog().isTempView((scala.collection.immutable.Seq) view.multipartIdentifier())) return plan;
      LogicalPlan rows = Dataset$.MODULE$.ofRows(Session.active(), view.clearWritePrivileges()).queryExecution().analyzed();
      DataSourceV2Relation whole = isText(rows) && !WholeTable.isOfKeptView(rows) ? WholeTable.of(rows) : null;
      return whole == null ? plan : (LogicalPlan) SparkInternals.with((scala.Product) plan, "table", whole);
    }

    private static boolean isText(LogicalPlan plan) {
      while (plan instanceof SubqueryAlias) plan = ((SubqueryAlias) plan).child();
      return plan instanceof View && !((View) plan).isTempViewStoringAnalyzedPlan();
    }
  }

  /** The writes with mergeSchema to tables of catalogs. */
  static class Writes extends Walk {
    public LogicalPlan changed(LogicalPlan plan) {
      scala.Product write = plan instanceof scala.Product ? (scala.Product) plan : null;
      if (write == null || !has(write, "withSchemaEvolution") || !has(write, "table")) return plan;
      if (!merges(write) && !Boolean.TRUE.equals(SparkInternals.argument(write, "withSchemaEvolution"))) return plan;
      Object table = SparkInternals.argument(write, "table"), target = evolving(table);
      if (target == null) return plan;
      return (LogicalPlan) SparkInternals.with(SparkInternals.with(write, "table", target), "withSchemaEvolution", Boolean.TRUE);
    }

    private static boolean merges(scala.Product write) {
      String given = null;
      if (has(write, "writeOptions")) {
        Map options = CollectionConverters.asJava((scala.collection.immutable.Map) SparkInternals.argument(write, "writeOptions"));
        given = new CaseInsensitiveStringMap(options).get(Names.MERGE_SCHEMA);
      }
      Object table = SparkInternals.argument(write, "table");
      if (given == null && table instanceof UnresolvedRelation) given = ((UnresolvedRelation) table).options().get(Names.MERGE_SCHEMA);
      if (given == null) given = Session.setting(MERGES_ALWAYS, "false");
      return "true".equalsIgnoreCase(given);
    }

    /** The table as the target of a write that adds columns; null for one that cannot be. */
    private static Object evolving(Object table) {
      if (table instanceof UnresolvedRelation) return isNamed((UnresolvedRelation) table) ? table : null;
      if (!(table instanceof DataSourceV2Relation)) return null;
      DataSourceV2Relation relation = (DataSourceV2Relation) table;
      boolean isNamed = !relation.catalog().isEmpty() && !relation.identifier().isEmpty();
      return isNamed && relation.table() instanceof LanceTable ? table : null;
    }

    /** Whether a name is that of a lance table of the session catalog, or one in a catalog of lance tables. */
    private static boolean isNamed(UnresolvedRelation relation) {
      return isEntry((scala.collection.immutable.Seq) relation.multipartIdentifier()) || hasOnlyLanceTables(CollectionConverters.asJava(relation.multipartIdentifier()));
    }
  }

  /** saveAsTable and createTable without a format name Spark's default source. A statement with USING says what its author wants. */
  private static LogicalPlan withoutDefaultFormat(V2CreateTablePlan plan) {
    boolean isStatement = !((LogicalPlan) plan).origin().sqlText().isEmpty();
    if (isStatement || !(plan.name() instanceof UnresolvedIdentifier)) return (LogicalPlan) plan;
    TableSpecBase table = (TableSpecBase) SparkInternals.argument((scala.Product) plan, "tableSpec");
    if (!isDefault(table.provider())) return (LogicalPlan) plan;
    scala.collection.immutable.Seq names = ((UnresolvedIdentifier) plan.name()).nameParts();
    scala.Option format = scala.Option.empty();
    if (!hasOnlyLanceTables(CollectionConverters.asJava(names))) {
      boolean isReplaced = plan instanceof ReplaceTable || plan instanceof ReplaceTableAsSelect;
      if (!isReplaced || !isEntry(names)) return (LogicalPlan) plan;
      format = new scala.Some(Names.FORMAT);
    }
    return (LogicalPlan) SparkInternals.with((scala.Product) plan, "tableSpec", SparkInternals.with((scala.Product) table, "provider", format));
  }

  /**
   * saveAsTable in mode append, without a format, to a lance table of the session catalog. Spark compares its default source with the table's,
   * though an append says nothing of the format.
   */
  private static LogicalPlan appended(CreateTable plan) {
    CatalogTable table = plan.tableDesc();
    scala.collection.immutable.Seq names = table.identifier().nameParts();
    boolean isPlain = table.partitionColumnNames().isEmpty() && table.bucketSpec().isEmpty() && table.storage().locationUri().isEmpty();
    if (plan.mode() != SaveMode.Append || plan.query().isEmpty() || !isPlain || !isDefault(table.provider()) || !isEntry(names)) return plan;
    Object relation = new UnresolvedRelation(names, CaseInsensitiveStringMap.empty(), false);
    Object[] given = { relation, plan.query().get(), table.storage().properties() };
    return (LogicalPlan) SparkInternals.made(AppendData$.MODULE$, "byName", given);
  }

  /** Whether a format is none, or Spark's default source. */
  private static boolean isDefault(scala.Option format) {
    return format.isEmpty() || SparkSession.active().conf().get("spark.sql.sources.default").equalsIgnoreCase((String) format.get());
  }

  /** Whether a name is one in a catalog of lance tables. */
  private static boolean hasOnlyLanceTables(List names) { return SessionCatalogs.active().of(names) instanceof OfLanceTables; }

  private static boolean has(scala.Product value, String argument) {
    for (int i = 0; i < value.productArity(); i++) if (value.productElementName(i).equals(argument)) return true;
    return false;
  }

  /** Whether a name is that of a lance table of the session catalog. */
  private static boolean isEntry(scala.collection.immutable.Seq parts) {
    List names = CollectionConverters.asJava(parts);
    org.apache.spark.sql.internal.SessionState state = Session.active().sessionState();
    SessionCatalogs manager = SessionCatalogs.active();
    boolean isFull = names.size() == 3 && names.get(0).equals(SessionCatalogs.SESSION);
    boolean isCurrent = manager.currentCatalog().name().equals(SessionCatalogs.SESSION) && names.size() < 3;
    if (!isFull && !isCurrent || names.size() == 2 && manager.hasCatalog(names)) return false;
    if (state.catalog().isTempView(parts)) return false;
    String database = names.size() == 1 ? manager.currentNamespace()[0] : (String) names.get(names.size() - 2);
    Identifier id = Identifier.of(new String[] { database }, (String) names.get(names.size() - 1));
    return SessionEntry.isLance(id);
  }

  public void addTo(SparkSessionExtensions extensions) { extensions.injectHintResolutionRule(new RuleBuilder(this)); }

  public void addTo(SparkSession session) { Session.addRule(session, "hintResolutionRules", this); }
}
