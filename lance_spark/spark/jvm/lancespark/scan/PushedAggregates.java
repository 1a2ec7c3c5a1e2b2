package lancespark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.*;
import lancespark.core.Session;
import lancespark.protocol.Json;
import org.apache.spark.sql.connector.expressions.*;
import org.apache.spark.sql.connector.expressions.aggregate.*;
import org.apache.spark.sql.types.*;

/**
 * The aggregates that each task computes of its rows: as JSON for lance_spark.spark.read.request, and the columns of the result, which are
 * the keys and then a0, a1, ... A task returns one or more rows per group, and Spark combines them.
 *
 * Only aggregates whose results are exactly Spark's are accepted. Spark adds up partial sums of a decimal as values of the type of the
 * argument, so the reader returns several rows of a group if their sum does not fit in it.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
class PushedAggregates {
  static final String FLOATS = "spark.lance.pushFloatAggregates";
  private static final String PRECISION_LOSS = "spark.sql.decimalOperations.allowPrecisionLoss";
  private static final int MAX_DIGITS = 38, MIN_ADJUSTED_SCALE = 6, MAX_DEPTH = 50;
  private static final Set OPERATORS = new HashSet(Arrays.asList(new Object[] { "+", "-", "*" }));
  final ArrayNode keys = Json.array(), functions = Json.array();
  final String shown;
  final StructType schema;
  private final PlanJson json;
  private final List fields = new ArrayList();

  /** Raises Unsupported if the reader cannot compute all aggregates exactly as Spark does. */
  PushedAggregates(Aggregation aggregation, StructType table) throws Unsupported {
    json = new PlanJson(table);
    Expression[] by = aggregation.groupByExpressions();
    AggregateFunc[] aggregates = aggregation.aggregateExpressions();
    for (int i = 0; i < by.length; i++) addKey(by[i]);
    for (int i = 0; i < aggregates.length; i++) addFunction(aggregates[i], "a" + i);
    // Without functions and keys, the result is one row without columns.
    if (fields.isEmpty()) throw new Unsupported();
    shown = Arrays.asList(aggregates) + (by.length == 0 ? "" : " BY " + Arrays.asList(by));
    schema = new StructType((StructField[]) fields.toArray(new StructField[0]));
  }

  /** True if Spark's average of these types is that of a sum of exact numbers. It adds up other numbers as doubles. */
  static boolean averagesExactly(Aggregation aggregation, StructType table) {
    AggregateFunc[] aggregates = aggregation.aggregateExpressions();
    for (int i = 0; i < aggregates.length; i++) {
      if (!(aggregates[i] instanceof Avg)) continue;
      Expression argument = ((Avg) aggregates[i]).column();
      DataType type = argument instanceof NamedReference ? new PlanJson(table).typeOf((NamedReference) argument) : null;
      // An expression of another type than decimal is not accepted as the argument of a sum.
      boolean isExact = type == null || type instanceof DecimalType || type instanceof ByteType || type instanceof ShortType;
      // A sum of longs can overflow, while doubles cannot.
      if (!isExact && (type instanceof LongType || !allowsFloats())) return false;
    }
    return true;
  }

  private static boolean allowsFloats() { return Boolean.parseBoolean(Session.setting(FLOATS, "false")); }

  private void addKey(Expression key) throws Unsupported {
    if (!(key instanceof NamedReference)) throw new Unsupported();
    NamedReference column = (NamedReference) key;
    DataType type = json.typeOf(column);
    if (type == null || !PlanJson.isComparedExactly(type) && !PlanJson.isFloat(type)) throw new Unsupported();
    String[] names = column.fieldNames();
    keys.add(json.column(column, true));
    fields.add(new StructField(names[names.length - 1], type, true, Metadata.empty()));
  }

  private void addFunction(AggregateFunc function, String name) throws Unsupported {
    ArrayNode node = Json.array();
    DataType type = DataTypes.LongType;
    if (function instanceof CountStar) node.add("count");
    else if (function instanceof Count && !((Count) function).isDistinct()) node.add("count").add(counted(((Count) function).column()));
    else if (function instanceof Min) type = extreme(node.add("min"), ((Min) function).column());
    else if (function instanceof Max) type = extreme(node.add("max"), ((Max) function).column());
    else if (function instanceof Sum && !((Sum) function).isDistinct()) type = sum(node.add("sum"), ((Sum) function).column());
    else throw new Unsupported();
    functions.add(node);
    fields.add(new StructField(name, type, !(function instanceof Count || function instanceof CountStar), Metadata.empty()));
  }

  /** An expression other than a column could fail on a value. */
  private JsonNode counted(Expression e) throws Unsupported {
    if (!(e instanceof NamedReference) || json.typeOf((NamedReference) e) == null) throw new Unsupported();
    return json.column((NamedReference) e, true);
  }

  /** Appends the argument of a minimum or maximum, and returns its type. */
  private DataType extreme(ArrayNode node, Expression e) throws Unsupported {
    if (!(e instanceof NamedReference)) return decimal(node, e, 0);
    DataType type = json.typeOf((NamedReference) e);
    if (type == null || !PlanJson.isComparedExactly(type)) throw new Unsupported();
    node.add(json.column((NamedReference) e, false));
    return type;
  }

  /** Appends the argument of a sum, and returns the type of partial sums. */
  private DataType sum(ArrayNode node, Expression e) throws Unsupported {
    DataType type = e instanceof NamedReference ? json.typeOf((NamedReference) e) : null;
    if (type == null || type instanceof DecimalType) return decimal(node, e, 0);
    if (!isInteger(type) && !(PlanJson.isFloat(type) && allowsFloats())) throw new Unsupported();
    node.add(json.column((NamedReference) e, true));
    return isInteger(type) ? DataTypes.LongType : DataTypes.DoubleType;
  }

  /** Appends arithmetic on decimals, and returns its type by Spark's rules. */
  private DecimalType decimal(ArrayNode node, Expression e, int depth) throws Unsupported {
    if (depth > MAX_DEPTH) throw new Unsupported();
    if (e instanceof NamedReference) {
      DataType type = json.typeOf((NamedReference) e);
      if (!(type instanceof DecimalType)) throw new Unsupported();
      node.add(json.column((NamedReference) e, false));
      return (DecimalType) type;
    }
    if (e instanceof Literal) return literal(node, (Literal) e);
    if (e instanceof Cast) return cast(node, (Cast) e, depth);
    boolean isCall = e instanceof GeneralScalarExpression && e.children().length == 2;
    if (!isCall || !OPERATORS.contains(((GeneralScalarExpression) e).name())) throw new Unsupported();
    String operator = ((GeneralScalarExpression) e).name();
    ArrayNode call = Json.array().add(operator);
    DecimalType a = decimal(call, e.children()[0], depth + 1), b = decimal(call, e.children()[1], depth + 1);
    node.add(call);
    if (operator.equals("*")) return adjusted(a.precision() + b.precision() + 1, a.scale() + b.scale());
    int scale = Math.max(a.scale(), b.scale());
    return adjusted(Math.max(a.precision() - a.scale(), b.precision() - b.scale()) + scale + 1, scale);
  }

  private static DecimalType literal(ArrayNode node, Literal literal) throws Unsupported {
    if (!(literal.dataType() instanceof DecimalType) || literal.value() == null) throw new Unsupported();
    DecimalType type = (DecimalType) literal.dataType();
    String digits = ((Decimal) literal.value()).toJavaBigDecimal().setScale(type.scale()).unscaledValue().toString();
    node.add(Json.array().add("l").add(digits).add(type.scale()));
    return type;
  }

  /** A cast to a decimal type that can hold every value. */
  private DecimalType cast(ArrayNode node, Cast cast, int depth) throws Unsupported {
    if (!(cast.dataType() instanceof DecimalType)) throw new Unsupported();
    DecimalType type = (DecimalType) cast.dataType();
    ArrayNode call = Json.array().add("cast");
    DataType from = cast.expression() instanceof NamedReference ? json.typeOf((NamedReference) cast.expression()) : null;
    int digits, scale;
    if (from != null && isInteger(from)) {
      call.add(json.column((NamedReference) cast.expression(), false));
      digits = from instanceof ByteType ? 3 : from instanceof ShortType ? 5 : from instanceof IntegerType ? 10 : 19;
      scale = 0;
    } else {
      DecimalType inner = decimal(call, cast.expression(), depth + 1);
      digits = inner.precision() - inner.scale();
      scale = inner.scale();
    }
    if (type.precision() - type.scale() < digits || type.scale() < scale) throw new Unsupported();
    node.add(call.add(type.scale()));
    return type;
  }

  /** The type of a result with this exact precision and scale (DecimalType.adjustPrecisionScale), unless Spark rounds such results. */
  private static DecimalType adjusted(int precision, int scale) throws Unsupported {
    if (precision <= MAX_DIGITS) return new DecimalType(precision, scale);
    boolean isAdjusted = Boolean.parseBoolean(Session.setting(PRECISION_LOSS, "true"));
    if (!isAdjusted || Math.max(MAX_DIGITS - (precision - scale), Math.min(scale, MIN_ADJUSTED_SCALE)) != scale) throw new Unsupported();
    return new DecimalType(MAX_DIGITS, scale);
  }

  private static boolean isInteger(DataType t) {
    return t instanceof ByteType || t instanceof ShortType || t instanceof IntegerType || t instanceof LongType;
  }
}
