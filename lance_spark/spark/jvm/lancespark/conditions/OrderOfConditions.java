package lancespark.conditions;

import java.util.*;
import lancespark.core.SparkInternals;
import lancespark.core.Walk;
import lancespark.scan.PlanJson;
import lancespark.table.LanceTable;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Exists;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.InSubquery;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.DataTypes;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Keeps the order of the conditions of a scan that Spark evaluates, so that one that fails on some rows is not evaluated on those that the
 * conditions before it leave out, as in `v RLIKE '^[0-9]+$' AND CAST(v AS INT) > 0`.
 *
 * Spark's push-down evaluates first the conditions that it can express for a source, then the others, and then those with subqueries. Where this
 * is another order than that of the query, the conditions become one, of nested IFs. What the reader evaluates never fails, and may come first.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
public class OrderOfConditions extends Walk {
  /** The places in which Spark's push-down puts conditions. Those at no place stay where they are. */
  private static final int NO_PLACE = -1, EXPRESSED = 0, OTHERS = 1, WITH_SUBQUERIES = 2;

  public LogicalPlan changed(LogicalPlan plan) {
    if (!(plan instanceof Filter) || !(plan.children().apply(0) instanceof DataSourceV2Relation)) return plan;
    DataSourceV2Relation relation = (DataSourceV2Relation) plan.children().apply(0);
    LanceTable table = LanceTable.scanned(relation.table());
    if (table == null) return plan;
    List conditions = new ArrayList();
    ExtraConditions.addOperands(((Filter) plan).condition(), And.class, conditions);
    int[] places = places(conditions, relation, table);
    int first = firstOutOfPlace(places);
    if (first < 0) return plan;
    List before = new ArrayList(), ordered = new ArrayList(), after = new ArrayList();
    for (int i = 0; i < places.length; i++) {
      if (places[i] == NO_PLACE || i < first) before.add(conditions.get(i));
      else ordered.add(conditions.get(i));
      // Spark also prunes the scan by a condition with a subquery, if it stands alone.
      if (places[i] == WITH_SUBQUERIES && i >= first) after.add(conditions.get(i));
    }
    before.add(nested(ordered));
    before.addAll(after);
    return (LogicalPlan) SparkInternals.with((scala.Product) plan, "condition", joined(before));
  }

  private static int[] places(List conditions, DataSourceV2Relation relation, LanceTable table) {
    int[] places = new int[conditions.size()];
    for (int i = 0; i < places.length; i++) places[i] = place((Expression) conditions.get(i), relation, table);
    return places;
  }

  private static int place(Expression condition, DataSourceV2Relation relation, LanceTable table) {
    // Spark makes joins of these later, whatever the source is.
    if (hasPredicateSubquery(condition)) return NO_PLACE;
    if (SubqueryExpression$.MODULE$.hasSubquery(condition)) return WITH_SUBQUERIES;
    scala.collection.immutable.Seq one = CollectionConverters.asScala(Collections.singletonList(condition)).toSeq();
    Expression normalized = (Expression) DataSourceStrategy$.MODULE$.normalizeExprs(one, (scala.collection.immutable.Seq) (Object) relation.output()).apply(0);
    Object expressed;
    try {
      expressed = ExtraConditions.connector(normalized, true);
    } catch (AssertionError fails) {
      return OTHERS;  // see PushDownTrial
    }
    if (expressed == null) return OTHERS;
    boolean isRead = new PlanJson(table.schema()).expression((org.apache.spark.sql.connector.expressions.Expression) expressed) != null;
    return isRead ? NO_PLACE : EXPRESSED;
  }

  private static boolean hasPredicateSubquery(TreeNode expression) {
    if (expression instanceof InSubquery || expression instanceof Exists) return true;
    for (Object child : CollectionConverters.asJava(expression.children())) if (hasPredicateSubquery((TreeNode) child)) return true;
    return false;
  }

  /** The first condition that comes before one of an earlier place; -1 if the conditions are in order. */
  private static int firstOutOfPlace(int[] places) {
    for (int i = 0; i < places.length; i++) {
      for (int k = i + 1; k < places.length; k++) if (places[k] != NO_PLACE && places[k] < places[i]) return i;
    }
    return -1;
  }

  /** One condition, which evaluates each of these only where those before it are true. */
  private static Expression nested(List conditions) {
    Expression last = (Expression) conditions.get(conditions.size() - 1);
    for (int i = conditions.size() - 2; i >= 0; i--) {
      last = new If((Expression) conditions.get(i), last, new Literal(Boolean.FALSE, DataTypes.BooleanType));
    }
    return last;
  }

  private static Expression joined(List conditions) {
    Expression all = (Expression) conditions.get(0);
    for (int i = 1; i < conditions.size(); i++) all = new And(all, (Expression) conditions.get(i));
    return all;
  }
}
