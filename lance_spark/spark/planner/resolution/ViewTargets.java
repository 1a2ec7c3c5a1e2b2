package lancespark;

import java.util.*;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.InsertIntoStatement;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias$;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The rule before the resolution of names with which a command on a temporary view of a whole lance table is one on the table: Spark
 * itself refuses to write to views. A table that has a name is then found by it, at its latest version.
 */
public class ViewTargets extends Rule implements Addition {
  public ViewTargets() {}

  public String ruleName() { return "lance_spark.ViewTargets"; }

  /** After a failure the plan stays unchanged, and Spark says what it thinks of the view. */
  public TreeNode apply(TreeNode plan) {
    if (!Features.areKnown("resolution")) return plan;
    try {
      return new Commands().in((LogicalPlan) plan);
    } catch (Exception e) {
      LancePlanner.LOG.debug("the target of a command is not looked for among the temporary views", e);
      return plan;
    }
  }

  static class Commands extends Walk {
    LogicalPlan changed(LogicalPlan plan) throws Exception {
      if (plan instanceof DeleteFromTable || plan instanceof UpdateTable) return onTable(plan, "table", true);
      if (plan instanceof MergeIntoTable) return onTable(plan, "targetTable", true);
      boolean isWrite = plan instanceof InsertIntoStatement || plan instanceof V2WriteCommand;
      return isWrite ? onTable(plan, "table", false) : plan;
    }
  }

  private static LogicalPlan onTable(LogicalPlan command, String target, boolean isNamed) throws Exception {
    LogicalPlan view = (LogicalPlan) SparkInternals.argument((scala.Product) command, target), table = table(view, isNamed);
    return table == view ? command : (LogicalPlan) SparkInternals.with((scala.Product) command, target, table);
  }

  /** The table in the place of a view. With `isNamed`, conditions may name it as the view. */
  private static LogicalPlan table(LogicalPlan view, boolean isNamed) throws Exception {
    if (view instanceof SubqueryAlias) {
      LogicalPlan child = ((SubqueryAlias) view).child(), table = table(child, isNamed);
      return child == table ? view : (LogicalPlan) SparkInternals.with((scala.Product) view, "child", table);
    }
    if (!(view instanceof UnresolvedRelation)) return view;
    scala.collection.immutable.Seq name = ((UnresolvedRelation) view).multipartIdentifier();
    if (!LancePlanner.session().sessionState().catalog().isTempView(name)) return view;
    List parts = CollectionConverters.asJava(name);
    DataSourceV2Relation relation = whole(LancePlanner.session().table(quoted(parts)).queryExecution().analyzed());
    if (relation == null) return view;
    LogicalPlan table = hasName(relation) ? (LogicalPlan) SparkInternals.with((scala.Product) view, "multipartIdentifier", nameOf(relation)) : relation;
    return isNamed ? SubqueryAlias$.MODULE$.apply((String) parts.get(parts.size() - 1), table) : table;
  }

  private static String quoted(List parts) {
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < parts.size(); i++) text.append(i > 0 ? "." : "").append('`').append(((String) parts.get(i)).replace("`", "``")).append('`');
    return text.toString();
  }

  /** True if the view has the table of a catalog as it is, and not with options of its own, or at a version. */
  private static boolean hasName(DataSourceV2Relation relation) {
    return !relation.identifier().isEmpty() && !relation.catalog().isEmpty() && relation.options().isEmpty();
  }

  private static Object nameOf(DataSourceV2Relation relation) {
    Identifier identifier = (Identifier) relation.identifier().get();
    List parts = new ArrayList();
    parts.add(((CatalogPlugin) relation.catalog().get()).name());
    parts.addAll(Arrays.asList(identifier.namespace()));
    parts.add(identifier.name());
    return CollectionConverters.asScala(parts).toSeq();
  }

  /** The lance table of which a view has all columns and rows; null if it is not such a view. */
  private static DataSourceV2Relation whole(LogicalPlan plan) {
    if (plan instanceof SubqueryAlias) return whole(((SubqueryAlias) plan).child());
    if (plan instanceof View) return ((View) plan).isTempView() ? whole(((View) plan).child()) : null;
    if (plan instanceof Project) return hasAll((Project) plan) ? whole(((Project) plan).child()) : null;
    if (!(plan instanceof DataSourceV2Relation) || isOfVersion((DataSourceV2Relation) plan)) return null;
    Table table = ((DataSourceV2Relation) plan).table();
    return table instanceof LanceTable || LancePlanner.isLance(table) ? (DataSourceV2Relation) plan : null;
  }

  /** True for `VERSION AS OF`, which not all versions of Spark note. */
  private static boolean isOfVersion(DataSourceV2Relation relation) {
    for (int i = 0; i < relation.productArity(); i++) {
      boolean isVersion = relation.productElementName(i).equals("timeTravelSpec") && !((scala.Option) relation.productElement(i)).isEmpty();
      if (isVersion) return true;
    }
    return false;
  }

  /** True if a selection has all columns as they are, in their order. */
  private static boolean hasAll(Project project) {
    List chosen = CollectionConverters.asJava(project.projectList()), all = CollectionConverters.asJava(project.child().output());
    if (chosen.size() != all.size()) return false;
    for (int i = 0; i < all.size(); i++) {
      NamedExpression column = (NamedExpression) all.get(i), taken = (NamedExpression) chosen.get(i);
      Object plain = plain(taken);
      boolean isSame = plain instanceof NamedExpression && ((NamedExpression) plain).exprId().equals(column.exprId());
      if (!isSame || !taken.name().equals(column.name())) return false;
    }
    return true;
  }

  /** A column without its alias and a cast to its own type, which Spark adds to the columns of a view. */
  private static Object plain(NamedExpression column) {
    Object plain = column instanceof Alias ? (Object) ((Alias) (Object) column).child() : column;
    if (!(plain instanceof Cast)) return plain;
    Expression inner = ((Cast) plain).child();
    return inner.dataType().equals(((Cast) plain).dataType()) ? (Object) inner : plain;
  }

  public void addTo(SparkSessionExtensions extensions) { extensions.injectHintResolutionRule(new LancePlanner.Builder(this)); }

  /** Does nothing if the session has the rule. */
  public void addTo(SparkSession session) throws Exception { LanceResolution.addRule(session, this, true); }
}
