package lancespark.conditions;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.*;
import lancespark.core.SparkInternals;
import lancespark.core.Walk;
import lancespark.protocol.Json;
import lancespark.scan.PlanJson;
import lancespark.scan.Request;
import lancespark.table.LanceTable;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.ArrayContains;
import org.apache.spark.sql.catalyst.expressions.ArraysOverlap;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetJsonObject;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.Like;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.V2ExpressionBuilder;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.*;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Gives a scan the conditions that Spark cannot express for a source, so that indexes answer them: array_contains, arrays_overlap, LIKE, and
 * get_json_object where it equals a constant.
 *
 * They become an option of the relation, beside what Spark pushes down. Spark's filter stays as it is and evaluates them again: the scan may
 * only leave out rows for which they are false or null.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
public class ExtraConditions extends Walk {
  private static final int MAX_DEPTH = 20, MAX_CHARACTERS = 1 << 20, MAX_PATTERN = 1000;

  public LogicalPlan changed(LogicalPlan plan) {
    if (!(plan instanceof Filter)) return plan;
    Object child = plan.children().apply(0);
    if (!(child instanceof DataSourceV2Relation) || LanceTable.scanned(((DataSourceV2Relation) child).table()) == null) return plan;
    DataSourceV2Relation relation = (DataSourceV2Relation) child;
    Conditions conditions = new Conditions(LanceTable.scanned(relation.table()).schema());
    List one = Collections.singletonList(((Filter) plan).condition());
    scala.collection.immutable.Seq parts = CollectionConverters.asScala(one).toSeq(), columns = (scala.collection.immutable.Seq) (Object) relation.output();
    // The names in a condition may differ in case from those of the columns.
    conditions.add((Expression) DataSourceStrategy$.MODULE$.normalizeExprs(parts, columns).apply(0));
    if (conditions.found.isEmpty()) return plan;
    Map options = new HashMap(relation.options().asCaseSensitiveMap());
    options.put(Request.CONDITIONS, Json.text(conditions.found));
    List children = Collections.singletonList(SparkInternals.with(relation, "options", new CaseInsensitiveStringMap(options)));
    return (LogicalPlan) plan.withNewChildren(CollectionConverters.asScala(children).toSeq());
  }

  /** Flattens a chain of AND or OR, in which Spark nests operands on the left. */
  static void addOperands(Expression e, Class type, List to) {
    LinkedList todo = new LinkedList(Collections.singletonList(e));
    while (!todo.isEmpty()) {
      Expression next = (Expression) todo.removeFirst();
      if (next.getClass() != type) to.add(next);
      else todo.addAll(0, CollectionConverters.asJava(next.children()));
    }
  }

  /** An expression as Spark gives it to a source; null for one that it cannot express. */
  static Object connector(Expression e, boolean isPredicate) {
    scala.Option built = new V2ExpressionBuilder(e, isPredicate).build();
    return built.isEmpty() ? null : built.get();
  }

  /** The conditions of one filter: their SQL and their JSON, see PlanJson. */
  static class Conditions {
    final ArrayNode found = Json.array();
    private final PlanJson json;
    private boolean isExtra;

    Conditions(StructType schema) { json = new PlanJson(schema); }

    void add(Expression filter) {
      List operands = new ArrayList();
      addOperands(filter, And.class, operands);
      for (int i = 0; i < operands.size(); i++) {
        isExtra = false;
        Expression operand = (Expression) operands.get(i);
        JsonNode condition = condition(operand, 0);
        boolean isGiven = isExtra && condition != null && Json.text(condition).length() < MAX_CHARACTERS;
        if (isGiven) found.add(Json.array().add(operand.sql()).add(condition));
      }
    }

    /** The condition, or null if the reader cannot evaluate it. */
    private JsonNode condition(Expression e, int depth) {
      if (depth > MAX_DEPTH) return null;
      // No index answers it, most rows satisfy it, and Spark evaluates it again.
      if (e instanceof Not && child(e, 0) instanceof Like) return null;
      if (e instanceof And || e instanceof Or || e instanceof Not) {
        List operands = new ArrayList();
        if (e instanceof Not) operands.add(child(e, 0));
        else addOperands(e, e.getClass(), operands);
        ArrayNode call = Json.array().add(e instanceof And ? "AND" : e instanceof Or ? "OR" : "NOT");
        for (int i = 0; i < operands.size(); i++) {
          JsonNode operand = condition((Expression) operands.get(i), depth + 1);
          if (operand == null) return null;
          call.add(operand);
        }
        return call;
      }
      if (e instanceof ArrayContains) return extra("ARRAY_CONTAINS", child(e, 0), child(e, 1), true);
      if (e instanceof ArraysOverlap) {
        // Unlike all other comparisons, Spark's arrays_overlap keeps -0.0 and 0.0 apart, so conditions on floats are left to it.
        boolean isFirst = !(child(e, 0) instanceof Literal);
        return extra("ARRAYS_OVERLAP", child(e, isFirst ? 0 : 1), child(e, isFirst ? 1 : 0), false);
      }
      if (e instanceof Like) return like((Like) e);
      // The reader may take it for true, so it must not be below NOT.
      if (depth == 0 && (e instanceof EqualTo || e instanceof In) && json(e) != null) return json(e);
      try {
        Object connector = connector(e, true);
        return connector == null ? null : json.expression((org.apache.spark.sql.connector.expressions.Expression) connector);
      } catch (AssertionError fails) {
        return null;  // see PushDownTrial
      }
    }

    private static Expression child(Expression e, int at) { return (Expression) e.children().apply(at); }

    /** A function of a column of arrays and a constant, an item or an array. */
    private JsonNode extra(String function, Expression lists, Expression wanted, boolean takesFloats) {
      if (!(wanted instanceof Literal) || ((Literal) wanted).value() == null) return null;
      Object value = ((Literal) wanted).value();
      DataType compared = wanted.dataType();
      boolean isArray = function.equals("ARRAYS_OVERLAP");
      if (isArray) compared = ((ArrayType) compared).elementType();
      if (PlanJson.isFloat(compared) ? !takesFloats : !PlanJson.isComparedExactly(compared)) return null;
      JsonNode column = lists(lists, compared);
      JsonNode constant = isArray ? array((ArrayData) value, compared) : json.expression(new LiteralValue(value, compared));
      if (column == null || constant == null) return null;
      isExtra = true;
      return Json.array().add(function).add(column).add(constant);
    }

    /** A column of arrays whose items are of this type, or are cast to it without loss. */
    private JsonNode lists(Expression lists, DataType compared) {
      Expression e = lists instanceof Cast ? child(lists, 0) : lists;
      Object column = connector(e, false);
      if (!(column instanceof NamedReference) || !(json.typeOf((NamedReference) column) instanceof ArrayType)) return null;
      DataType items = ((ArrayType) json.typeOf((NamedReference) column)).elementType();
      boolean isWider = integerRank(items) > 0 && integerRank(items) < integerRank(compared);
      boolean isSame = items.equals(compared) || isWider || items instanceof FloatType && compared instanceof DoubleType;
      return isSame ? json.column((NamedReference) column, true) : null;
    }

    private static int integerRank(DataType t) {
      return t instanceof ByteType ? 1 : t instanceof ShortType ? 2 : t instanceof IntegerType ? 3 : t instanceof LongType ? 4 : 0;
    }

    private JsonNode array(ArrayData values, DataType type) {
      ArrayNode array = Json.array().add("ARRAY");
      for (int i = 0; i < values.numElements(); i++) {
        JsonNode item = json.expression(new LiteralValue(values.isNullAt(i) ? null : values.get(i, type), type));
        if (item == null) return null;
        array.add(item);
      }
      return array;
    }

    /** A text of a JSON document that equals one of some constants; null for other conditions. */
    private JsonNode json(Expression e) {
      List operands = new ArrayList(CollectionConverters.asJava(e.children()));
      if (e instanceof EqualTo && operands.get(0) instanceof Literal) Collections.reverse(operands);
      if (!(operands.get(0) instanceof GetJsonObject)) return null;
      Expression call = (Expression) operands.remove(0);
      operands.add(0, child(call, 1));
      Object connector = connector(child(call, 0), false);
      JsonNode column = connector instanceof NamedReference ? json.column((NamedReference) connector, false) : null;
      ArrayNode node = Json.array().add("JSON_TEXT").add(column);
      for (int i = 0; i < operands.size(); i++) {
        Expression text = (Expression) operands.get(i);
        boolean isText = text instanceof Literal && text.dataType().equals(DataTypes.StringType) && ((Literal) text).value() != null;
        JsonNode constant = isText ? json.expression(new LiteralValue(((Literal) text).value(), DataTypes.StringType)) : null;
        if (constant == null) return null;
        node.add(constant);
      }
      isExtra = column != null && child(call, 0).dataType().equals(DataTypes.StringType);
      return isExtra ? node : null;
    }

    /** LIKE with a constant pattern without escapes. */
    private JsonNode like(Like e) {
      Expression text = child(e, 0), pattern = child(e, 1);
      boolean isConstant = pattern instanceof Literal && ((Literal) pattern).value() != null;
      if (!isConstant || !text.dataType().equals(DataTypes.StringType) || !pattern.dataType().equals(DataTypes.StringType)) return null;
      Object connector = connector(text, false);
      JsonNode column = connector instanceof NamedReference ? json.column((NamedReference) connector, false) : null;
      JsonNode constant = json.expression(new LiteralValue(((Literal) pattern).value(), DataTypes.StringType));
      String value = ((Literal) pattern).value().toString();
      if (column == null || constant == null || value.length() > MAX_PATTERN || value.indexOf(e.escapeChar()) >= 0) return null;
      isExtra = true;
      return Json.array().add("LIKE").add(column).add(constant);
    }
  }
}
