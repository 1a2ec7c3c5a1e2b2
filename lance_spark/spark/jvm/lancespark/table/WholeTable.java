package lancespark.table;

import java.util.*;
import lancespark.core.SparkInternals;
import lancespark.source.Source;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.jdk.javaapi.CollectionConverters;

/** Finds the lance table that a plan, such as that of a name or a view, has all rows and columns of. */
@SuppressWarnings({"rawtypes", "cast"})
public class WholeTable {
  /** The function with which Spark pads the values of CHAR columns, in a projection of all columns. */
  private static final String PADDING = "readSidePadding";

  /**
   * The relation of the table; null for a plan that is something else. It has the output of the plan: other parts of a statement may refer to
   * that already, and of a CHAR column only the padded values are known to be CHAR.
   */
  public static DataSourceV2Relation of(LogicalPlan plan) {
    LogicalPlan inner = shown(plan);
    if (!(inner instanceof DataSourceV2Relation)) return null;
    DataSourceV2Relation relation = (DataSourceV2Relation) inner;
    if (!(relation.table() instanceof LanceTable) && !Source.isOf(relation.table())) return null;
    if (relation.output().equals(plan.output())) return relation;
    return (DataSourceV2Relation) SparkInternals.with(relation, "output", plan.output());
  }

  /** What a name, a view or a projection of all columns shows: the plan below these. */
  public static LogicalPlan shown(LogicalPlan plan) {
    LogicalPlan inner = plan;
    while (inner instanceof SubqueryAlias || inner instanceof View || inner instanceof Project && hasAllColumns((Project) inner)) {
      inner = (LogicalPlan) inner.children().apply(0);
    }
    return inner;
  }

  /** Whether a plan of a name is that of a view which a catalog keeps, or that of a temporary one of it: it may hide what its table had before. */
  public static boolean isOfKeptView(LogicalPlan plan) {
    LogicalPlan inner = plan;
    while (inner instanceof SubqueryAlias || inner instanceof View || inner instanceof Project || inner instanceof Filter) {
      if (inner instanceof View && !((View) inner).isTempView()) return true;
      inner = (LogicalPlan) inner.children().apply(0);
    }
    return false;
  }

  /** What to say of a view where a statement takes a table. */
  public static UnsupportedOperationException isView(String name) {
    return new UnsupportedOperationException(name + " is a view, and no table; write the name of its table, or ALTER VIEW to change the view");
  }

  private static boolean hasAllColumns(Project project) {
    List selected = CollectionConverters.asJava(project.projectList());
    List columns = CollectionConverters.asJava(((LogicalPlan) project.children().apply(0)).output());
    if (selected.size() != columns.size()) return false;
    for (int i = 0; i < columns.size(); i++) {
      Attribute column = (Attribute) columns.get(i);
      if (!isOne(selected.get(i), column) && !isShown(selected.get(i), column)) return false;
    }
    return true;
  }

  /** Whether an expression is the column. Spark gives one that it pads other metadata than the relation's. */
  private static boolean isOne(Object expression, Attribute column) {
    return expression instanceof Attribute && ((Attribute) expression).exprId().equals(column.exprId());
  }

  /** Whether this is the column of a view, which Spark casts to the type that it had, or the padded value of a CHAR column. */
  private static boolean isShown(Object selected, Attribute column) {
    if (!(selected instanceof Alias) || !((Alias) selected).name().equals(column.name())) return false;
    Expression value = ((Alias) selected).child();
    if (value instanceof Cast && value.dataType().equals(column.dataType())) value = (Expression) value.children().apply(0);
    if (isOne(value, column)) return true;
    boolean isPadded = value instanceof StaticInvoke && ((StaticInvoke) value).functionName().equals(PADDING);
    return isPadded && isOne(((StaticInvoke) value).arguments().apply(0), column);
  }
}
