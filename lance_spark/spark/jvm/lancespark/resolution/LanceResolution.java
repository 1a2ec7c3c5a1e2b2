package lancespark.resolution;

import java.util.*;
import lancespark.core.Addition;
import lancespark.core.BeforeRules;
import lancespark.core.OfLanceTables;
import lancespark.core.OfStream;
import lancespark.core.OwnStatement;
import lancespark.core.Plugins;
import lancespark.core.Session;
import lancespark.core.SessionCatalogs;
import lancespark.core.SparkInternals;
import lancespark.core.Walk;
import lancespark.protocol.Names;
import lancespark.source.MetadataColumns;
import lancespark.source.Source;
import lancespark.table.LanceTable;
import lancespark.table.WholeTable;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation$;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The analyzer rule that makes lance tables known to Spark as LanceTable: so it finds the metadata columns, and rewrites row-level commands. It
 * applies to temporary views and DataFrames of paths; tables of catalogs are LanceTables already.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast", "deprecation"})
public class LanceResolution extends Rule implements Addition {
  /** What Spark makes of DELETE, UPDATE and MERGE. Not all versions have all of them. */
  private static final List REWRITTEN = Arrays.asList(new String[] { "WriteDelta", "AppendData", "InsertOnlyMerge" });

  public LanceResolution() {}

  public String ruleName() { return "lance_spark.LanceResolution"; }

  /** After a failure the plan stays unchanged: queries still run, while row-level commands and metadata columns are unknown. */
  public TreeNode apply(TreeNode plan) {
    if (plan instanceof OwnStatement) return ((OwnStatement) (Object) plan).answer();
    try {
      // Spark stores the text of such a view, with the names of the temporary views that it finds in the plan.
      boolean isView = plan.getClass().getSimpleName().startsWith("CreateView") || plan.getClass().getSimpleName().startsWith("AlterView");
      return Plugins.analyzed(atVersion(new Tables(!isView).in((LogicalPlan) plan)));
    } catch (UnsupportedOperationException e) {
      throw e;
    } catch (Throwable t) {
      Session.LOG.warn("a lance table is only known as a Python source, without metadata columns and row-level commands", t);
      return plan;
    }
  }

  /** Spark would silently ignore new columns. */
  private static void checkEvolution(LogicalPlan target) {
    DataSourceV2Relation whole = WholeTable.of(target);
    if (whole == null) return;
    Table table = whole.table();
    if (table.capabilities().toString().contains("AUTOMATIC_SCHEMA_EVOLUTION")) return;
    throw new UnsupportedOperationException("MERGE WITH SCHEMA EVOLUTION cannot add columns to a view of a path, because no catalog has the table. "
        + "Use withSchemaEvolution() of LanceTable.merge, or leave out WITH SCHEMA EVOLUTION");
  }

  static class Tables extends Walk {
    private final boolean opensViews;

    /** `opensViews`: metadata columns of the frames of views are found, too. */
    Tables(boolean opensViews) { this.opensViews = opensViews; }

    public LogicalPlan changed(LogicalPlan plan) {
      if (!plan.resolved()) BlobColumns.check(plan);
      if (opensViews && !plan.resolved() && namesRowColumn(plan)) {
        LogicalPlan opened = withOpenViews(plan);
        if (opened != plan) return in(opened);
      }
      if (plan instanceof InsertIntoStatement) plan = insertion((InsertIntoStatement) plan);
      if (plan instanceof DeleteFromTable || plan instanceof UpdateTable) return onTable(plan, "table");
      if (plan instanceof MergeIntoTable && ((MergeIntoTable) plan).withSchemaEvolution()) checkEvolution(((MergeIntoTable) plan).targetTable());
      if (plan instanceof MergeIntoTable) return onTable(RowColumns.detachedIn((MergeIntoTable) plan), "targetTable");
      if (plan instanceof V2WriteCommand && REWRITTEN.contains(plan.getClass().getSimpleName())) return RowColumns.addedTo(plan);
      if (plan instanceof StreamingRelationV2) return stream((StreamingRelationV2) plan);
      if (!(plan instanceof DataSourceV2Relation)) return plan;
      DataSourceV2Relation relation = (DataSourceV2Relation) plan;
      if (Source.isOf(relation.table())) relation = (DataSourceV2Relation) LanceTable.relation(relation, relation.output());
      return relation.table() instanceof LanceTable ? withRowColumns(relation) : relation;
    }
  }

  /** Whether a node names a metadata column that is not found. */
  private static boolean namesRowColumn(LogicalPlan plan) {
    for (Expression expression : CollectionConverters.asJava(plan.expressions())) if (isRowColumn(expression)) return true;
    return false;
  }

  private static boolean isRowColumn(Expression expression) {
    if (expression instanceof UnresolvedAttribute) {
      for (String name : CollectionConverters.asJava(((UnresolvedAttribute) expression).nameParts())) if (MetadataColumns.isOne(name)) return true;
    }
    for (Expression child : CollectionConverters.asJava(expression.children())) if (isRowColumn(child)) return true;
    return false;
  }

  /** A node over what the temporary views of DataFrames below it have: Spark hides the metadata columns of a view, and not those of a DataFrame. */
  private static LogicalPlan withOpenViews(LogicalPlan plan) {
    List<LogicalPlan> children = new ArrayList<>();
    for (LogicalPlan child : CollectionConverters.asJava(plan.children())) children.add(opened(child));
    return Walk.over(plan, children);
  }

  private static LogicalPlan opened(LogicalPlan plan) {
    if (!(plan instanceof View)) return withOpenViews(plan);
    boolean isFrame = ((View) plan).isTempViewStoringAnalyzedPlan() && hasLanceTable(plan);
    return isFrame ? withOpenViews(((View) plan).child()) : plan;
  }

  private static boolean hasLanceTable(LogicalPlan plan) {
    for (Object leaf : CollectionConverters.asJava(plan.collectLeaves())) {
      if (leaf instanceof DataSourceV2Relation && ((DataSourceV2Relation) leaf).table() instanceof LanceTable) return true;
    }
    return false;
  }

  /** A frame that is a table of a catalog has the columns of the version that its options select. In a statement, names stand for the latest already. */
  private static LogicalPlan atVersion(LogicalPlan plan) {
    if (plan instanceof SubqueryAlias) {
      LogicalPlan child = ((SubqueryAlias) plan).child(), changed = atVersion(child);
      return child == changed ? plan : (LogicalPlan) SparkInternals.with((scala.Product) plan, "child", changed);
    }
    boolean isLance = plan instanceof DataSourceV2Relation && ((DataSourceV2Relation) plan).table() instanceof LanceTable;
    if (!isLance) return plan;
    DataSourceV2Relation relation = (DataSourceV2Relation) plan;
    LanceTable table = (LanceTable) relation.table(), selected = table.atVersion(relation.options());
    return selected == table ? plan : over(relation, selected);
  }

  /** The relation over a table that was opened for its options. It has no name, by which Spark would take it from its cache for the table itself. */
  private static DataSourceV2Relation over(DataSourceV2Relation relation, LanceTable table) {
    DataSourceV2Relation opened = DataSourceV2Relation$.MODULE$.create(table, scala.Option.empty(), scala.Option.empty());
    Object output = withOwnColumns(opened.output(), relation.output());
    return (DataSourceV2Relation) SparkInternals.with(SparkInternals.with(opened, "options", relation.options()), "output", output);
  }

  /** Spark takes the columns of a table from its catalog. So an option that adds a column to those of a path selects a metadata column here. */
  private static LogicalPlan withRowColumns(DataSourceV2Relation given) {
    DataSourceV2Relation relation = ofChanges(given);
    List names = Arrays.asList(relation.table().schema().fieldNames()), wanted = new ArrayList();
    Map rest = new HashMap();
    for (Map.Entry option : relation.options().asCaseSensitiveMap().entrySet()) {
      String column = MetadataColumns.addedBy((String) option.getKey());
      boolean isAdded = column != null && "true".equalsIgnoreCase((String) option.getValue()) && !names.contains(column);
      if (isAdded) wanted.add(column);
      else rest.put(option.getKey(), option.getValue());
    }
    if (wanted.isEmpty()) return relation;
    List columns = new ArrayList(CollectionConverters.asJava(relation.output()));
    // The columns must be those of this relation: other parts of the statement may refer to them already.
    LogicalPlan all = relation.withMetadataColumns();
    all = (LogicalPlan) SparkInternals.with((scala.Product) all, "options", new CaseInsensitiveStringMap(rest));
    for (NamedExpression attribute : CollectionConverters.asJava(all.output())) {
      if (wanted.contains(attribute.name())) columns.add(attribute);
    }
    return new Project(CollectionConverters.asScala(columns).toSeq(), all);
  }

  /** The changes of a table of a catalog: Spark takes its columns from there, so the table is opened again for those of the changes. */
  private static DataSourceV2Relation ofChanges(DataSourceV2Relation relation) {
    boolean isOpened = Arrays.asList(relation.table().schema().fieldNames()).contains("_change_type");
    if (isOpened || !relation.options().getBoolean(Names.CHANGE_FEED, false)) return relation;
    return over(relation, LanceTable.reopened(((LanceTable) relation.table()).source(relation.options()).options));
  }

  /** A stream of a table of a catalog reads it as one of a path, with all options of the table: streams use Spark's own scans of Python sources. */
  private static LogicalPlan stream(StreamingRelationV2 relation) {
    Table table = relation.table();
    CaseInsensitiveStringMap options = null;
    if (table instanceof LanceTable) options = ((LanceTable) table).source(relation.extraOptions()).options;
    else if (table.getClass().getSimpleName().equals("ChangelogTable")) options = ofChanges(SparkInternals.argument((scala.Product) table, "changelog"));
    if (options == null) return relation;
    PythonTable opened = LanceTable.python(options);
    Map<String, Object> values = new HashMap<>();
    values.put("table", opened);
    values.put("extraOptions", options);
    values.put("output", withOwnColumns(DataSourceV2Relation$.MODULE$.create(opened, scala.Option.empty(), scala.Option.empty()).output(), relation.output()));
    values.put("catalog", scala.Option.empty());
    values.put("identifier", scala.Option.empty());
    scala.Product changed = relation;
    for (Map.Entry value : values.entrySet()) {
      changed = SparkInternals.with(changed, (String) value.getKey(), value.getValue());
    }
    return (LogicalPlan) changed;
  }

  private static CaseInsensitiveStringMap ofChanges(Object changelog) { return changelog instanceof OfStream ? ((OfStream) changelog).options() : null; }

  /** The attributes, with those of `own` in the place of others with the same names and types: other parts of the statement may refer to them. */
  private static Object withOwnColumns(scala.collection.immutable.Seq<? extends Attribute> attributes, scala.collection.immutable.Seq<? extends Attribute> own) {
    List columns = new ArrayList(CollectionConverters.asJava(attributes));
    for (Attribute column : CollectionConverters.asJava(own)) {
      for (int i = 0; i < columns.size(); i++) {
        Attribute other = (Attribute) columns.get(i);
        if (other.name().equals(column.name()) && other.dataType().equals(column.dataType())) columns.set(i, column);
      }
    }
    return CollectionConverters.asScala(columns).toSeq();
  }

  /** A row-level command on a temporary view of a whole lance table is one on the table; Spark itself does not look into views. */
  private static LogicalPlan onTable(LogicalPlan command, String target) {
    LogicalPlan view = (LogicalPlan) SparkInternals.argument((scala.Product) command, target), table = withoutView(view);
    return table == view ? command : (LogicalPlan) SparkInternals.with((scala.Product) command, target, table);
  }

  private static LogicalPlan withoutView(LogicalPlan plan) {
    if (plan instanceof SubqueryAlias) {
      LogicalPlan child = ((SubqueryAlias) plan).child(), inner = withoutView(child);
      return child == inner ? plan : (LogicalPlan) SparkInternals.with((scala.Product) plan, "child", inner);
    }
    if (!(plan instanceof View)) return plan;
    DataSourceV2Relation whole = WholeTable.of(plan);
    if (WholeTable.isOfKeptView(plan)) checkNotOfLance((View) plan, whole);
    if (!((View) plan).isTempView()) return plan;
    return whole == null || !(whole.table() instanceof LanceTable) ? plan : whole;
  }

  /** Spark only says of such a view that it does not support the statement. */
  private static void checkNotOfLance(View view, DataSourceV2Relation whole) {
    scala.Option catalog = view.desc().identifier().catalog();
    boolean isInLance = !catalog.isEmpty() && SessionCatalogs.active().catalog((String) catalog.get()) instanceof OfLanceTables;
    if (isInLance || whole != null) throw WholeTable.isView(view.desc().identifier().unquotedString());
  }

  /** Spark takes the frame of a temporary view as the target, which may be more than a relation: the padding of CHAR columns, or a name. */
  private static LogicalPlan insertion(InsertIntoStatement write) {
    LogicalPlan target = write.table();
    DataSourceV2Relation whole = target instanceof Project || target instanceof SubqueryAlias ? WholeTable.of(target) : null;
    return whole == null ? write : (LogicalPlan) SparkInternals.with(write, "table", whole);
  }

  public void addTo(SparkSessionExtensions extensions) { extensions.injectResolutionRule(new ResolutionBuilder()); }

  /** The session has its parser when it builds its rules: ours must come before those of extensions that were named later. */
  static class ResolutionBuilder implements scala.Function1 {
    public Object apply(Object session) {
      try {
        for (Object addition : Plugins.additions()) {
          if (addition instanceof BeforeRules) ((BeforeRules) addition).addTo((SparkSession) session);
        }
      } catch (Exception e) {
        Session.LOG.warn("statements of lance tables such as OPTIMIZE are unknown in this session", e);
      }
      return new LanceResolution();
    }
  }

  public void addTo(SparkSession session) { Session.addRule(session, "extendedResolutionRules", this); }
}
