package lancespark.functions;

import java.time.ZoneOffset;
import java.util.*;
import lancespark.core.Session;
import lancespark.table.WholeTable;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.TimeZoneAwareExpression;
import org.apache.spark.sql.catalyst.optimizer.ComputeCurrentTime$;
import org.apache.spark.sql.catalyst.optimizer.ReplaceCurrentLike;
import org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The rows of a lance table that a name stands for: all, or those that satisfy the conditions of a
 * view, which decides what its users may see.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
final class SearchedRows {
  final DataSourceV2Relation table;
  /** The conditions as a filter of a search; null without any. */
  final String filter;

  private SearchedRows(DataSourceV2Relation table, String filter) {
    this.table = table;
    this.filter = filter;
  }

  /** The rows of a plan of a name; null for a plan that is something else. */
  static SearchedRows of(LogicalPlan plan) {
    List<String> conditions = new ArrayList<>();
    LogicalPlan inner = WholeTable.shown(finished(plan));
    while (inner instanceof Filter) {
      conditions.add("(" + text(((Filter) inner).condition()) + ")");
      inner = WholeTable.shown(((Filter) inner).child());
    }
    DataSourceV2Relation table = WholeTable.of(inner);
    if (table == null) return null;
    return new SearchedRows(table, conditions.isEmpty() ? null : String.join(" AND ", conditions));
  }

  /** The plan with what only Spark's optimizer knows, such as the user and the time. */
  private static LogicalPlan finished(LogicalPlan plan) {
    LogicalPlan replaced = (LogicalPlan) ReplaceExpressions$.MODULE$.apply(plan);
    replaced = (LogicalPlan) ComputeCurrentTime$.MODULE$.apply(replaced);
    return (LogicalPlan) new ReplaceCurrentLike(Session.active().sessionState().catalogManager()).apply(replaced);
  }

  private static String text(Expression condition) {
    if (!condition.deterministic()) {
      throw new IllegalArgumentException("the condition " + condition.sql()
          + " of a view is not deterministic, and cannot come before a search");
    }
    return inUtc((Expression) QueriedValues.in(condition).transformDown(new Constants()));
  }

  /** The text of an expression: a filter takes times to be in UTC, Spark writes them in the session's zone. */
  private static String inUtc(Expression condition) {
    final Expression written = condition;
    SQLConf conf = Session.active().sessionState().conf().clone();
    conf.setConfString(SQLConf$.MODULE$.SESSION_LOCAL_TIMEZONE().key(), "UTC");
    return (String) SQLConf$.MODULE$.withExistingConf(conf, new scala.runtime.AbstractFunction0() {
      public Object apply() { return written.sql(); }
    });
  }

  /** A filter knows no zone but UTC: neither the hour of a time in another one, nor its date. */
  private static void checkInUtc(Expression expression) {
    if (!(expression instanceof TimeZoneAwareExpression)) return;
    TimeZoneAwareExpression aware = (TimeZoneAwareExpression) expression;
    if (aware instanceof Cast && !((Cast) aware).needsTimeZone()) return;
    if (aware.zoneId().normalized().equals(ZoneOffset.UTC)) return;
    throw new IllegalArgumentException("the condition " + expression.sql() + " of a view is of the time zone "
        + aware.zoneId() + ", and cannot come before a search; name it in UTC");
  }

  /** Makes literals of constants, and takes the names of tables off the columns. */
  private static final class Constants extends scala.runtime.AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      if (node instanceof Attribute) return !(node instanceof UnresolvedAttribute);
      return ((Expression) node).foldable() && !(node instanceof Literal);
    }

    public Object applyOrElse(Object node, scala.Function1 others) {
      if (!isDefinedAt(node)) {
        checkInUtc((Expression) node);
        return others.apply(node);
      }
      if (node instanceof Attribute) {
        List<String> name = Collections.singletonList(((Attribute) node).name());
        return new UnresolvedAttribute(CollectionConverters.asScala(name).toSeq());
      }
      Expression constant = (Expression) node;
      return new Literal(constant.eval(null), constant.dataType());
    }
  }
}
