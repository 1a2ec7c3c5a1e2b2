package lancespark.functions;

import java.util.*;
import java.util.regex.Pattern;
import lancespark.core.Session;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSubquery;
import org.apache.spark.sql.catalyst.expressions.ListQuery;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.TimestampType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Conditions with queries in them, such as `id IN (SELECT id FROM mine)`: each query runs once, and
 * its values take its place. lance_spark.verbs.subqueries is the same for LanceTable.search.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
final class QueriedValues extends scala.runtime.AbstractPartialFunction {
  /** A query may return so many values: they are kept in the driver. */
  private static final int MOST = 1 << 20;
  private static final Pattern QUERY =
      Pattern.compile("\\bIN\\s*\\(\\s*(SELECT|WITH|TABLE|VALUES)\\b", Pattern.CASE_INSENSITIVE);

  private QueriedValues() {}

  /** A condition of a user as text: without queries, the text itself. */
  static String in(String condition) {
    if (!QUERY.matcher(condition).find()) return condition;
    return in(parsed(condition)).sql();
  }

  private static Expression parsed(String condition) {
    try {
      return Session.active().sessionState().sqlParser().parseExpression(condition);
    } catch (ParseException e) {
      throw new IllegalArgumentException("the filter " + condition + " is no condition: " + e.getMessage(), e);
    }
  }

  static Expression in(Expression condition) {
    return (Expression) condition.transformUp(new QueriedValues());
  }

  public boolean isDefinedAt(Object node) { return node instanceof InSubquery; }

  public Object applyOrElse(Object node, scala.Function1 others) {
    if (!(node instanceof InSubquery)) return others.apply(node);
    InSubquery among = (InSubquery) node;
    ListQuery query = among.query();
    if (among.values().size() != 1) {
      throw new IllegalArgumentException("a filter has one column before IN (SELECT ..), not several");
    }
    if (query.plan().containsPattern(TreePattern$.MODULE$.OUTER_REFERENCE())) {
      throw new IllegalArgumentException("a query behind IN refers to the row that it is asked for");
    }
    Expression operand = (Expression) among.values().apply(0);
    List values = values(query.plan());
    if (values.isEmpty()) return Literal$.MODULE$.FalseLiteral();
    return new In(operand, CollectionConverters.asScala(values).toSeq());
  }

  /** The values that a query returns, each once, as literals. */
  private static List values(LogicalPlan query) {
    Dataset found = Dataset$.MODULE$.ofRows(Session.active(), query);
    int columns = found.columns().length;
    if (columns != 1) {
      throw new IllegalArgumentException("a query behind IN returns one column, but one has " + columns);
    }
    DataType type = found.schema().fields()[0].dataType();
    if (type instanceof TimestampType) {
      throw new IllegalArgumentException("a query behind IN returns integers, decimals, texts, dates or booleans, "
          + "but one returns times of a zone");
    }
    List rows = found.distinct().limit(MOST + 1).collectAsList();
    if (rows.size() > MOST) {
      throw new IllegalArgumentException("a query behind IN returns more than " + MOST
          + " values: use a nearest join, or a smaller set");
    }
    List values = new ArrayList();
    for (Object row : rows) values.add(Literal$.MODULE$.create(((Row) row).get(0), type));
    return values;
  }
}
