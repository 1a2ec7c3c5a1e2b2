package lancespark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.*;
import lancespark.protocol.Json;
import lancespark.protocol.Names;
import lancespark.source.MetadataColumns;
import org.apache.spark.sql.connector.expressions.*;
import org.apache.spark.sql.types.*;

/**
 * Connector expressions as JSON, which lance_spark.predicate.from_json reads: ["c","a","b"] is the column a.b, ["l","long",5] a literal,
 * ["TEXT",name] the column of that name with the results of a TextCall, ["AND",x,y] a call. Spark evaluates expressions that have no such form.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
public class PlanJson {
  private static final Set CALLS = new HashSet(Arrays.asList(new Object[] { "=", "<>", "<=>", "<", "<=", ">", ">=", "AND", "OR", "NOT", "IN", "IS_NULL",
      "IS_NOT_NULL", "STARTS_WITH", "ENDS_WITH", "CONTAINS", "ALWAYS_TRUE", "ALWAYS_FALSE" }));
  /** Functions that require literals after the first argument. */
  private static final Set OF_LITERALS = new HashSet(Arrays.asList(new Object[] { "IN", "STARTS_WITH", "ENDS_WITH", "CONTAINS" }));
  private static final int MAX_DEPTH = 50, MAX_CHARACTERS = 1 << 20;
  /** The range of Python's dates, the years 1 to 9999, in days since 1970. */
  private static final long FIRST_DAY = -719162, LAST_DAY = 2932896;
  private static final long MICROS_A_DAY = 86400000000L;
  private static final Literal TRUE = new LiteralValue(Boolean.TRUE, DataTypes.BooleanType);

  /** True while the reader evaluates all expressions exactly as Spark does. Otherwise Spark must filter again. */
  public boolean isExact = true;
  private final StructType schema;

  /** `schema` is the table's, to which its metadata columns are added. */
  public PlanJson(StructType schema) { this.schema = MetadataColumns.with(schema); }

  /** The expression, or null if the reader cannot evaluate it. */
  public JsonNode expression(Expression e) {
    JsonNode node = expression(e, 0);
    return node == null || Json.text(node).length() >= MAX_CHARACTERS ? null : node;
  }

  private JsonNode expression(Expression e, int depth) {
    if (e instanceof Literal) return literal((Literal) e);
    if (e instanceof NamedReference) return isResult(e) ? result(e) : column((NamedReference) e, false);
    if (!(e instanceof GeneralScalarExpression) || !CALLS.contains(((GeneralScalarExpression) e).name()) || depth > MAX_DEPTH) return null;
    String name = ((GeneralScalarExpression) e).name();
    // Spark compares a column of truth values with true.
    if (name.equals("=") && isResult(e.children()[0]) && e.children()[1].equals(TRUE)) return result(e.children()[0]);
    boolean isNullTest = name.startsWith("IS_"), exactBefore = isExact;
    List operands = new ArrayList();
    addOperands(e, name, operands);
    ArrayNode call = Json.array().add(name);
    for (int i = 0; i < operands.size(); i++) {
      Expression operand = (Expression) operands.get(i);
      boolean isLiteral = operand instanceof Literal && (name.equals("IN") || ((Literal) operand).value() != null);
      if (i > 0 && OF_LITERALS.contains(name) && !isLiteral) return null;
      boolean anyType = isNullTest && operand instanceof NamedReference && !isResult(operand);
      JsonNode node = anyType ? column((NamedReference) operand, true) : expression(operand, depth + 1);
      if (node == null) return null;
      call.add(node);
    }
    if (isNullTest) isExact = exactBefore;
    return call;
  }

  private boolean isResult(Expression e) {
    return e instanceof NamedReference && isResult(((NamedReference) e).fieldNames()) && typeOf((NamedReference) e) == null;
  }

  /** Whether a column is of the feature "text": then its name is the call that it has the results of, see TextCall. */
  private static boolean isResult(String[] names) {
    return names.length == 1 && (names[0].startsWith(Names.MATCH + "([") || names[0].startsWith(Names.MATCH_PHRASE + "(["));
  }

  private static JsonNode result(Expression e) { return Json.array().add("TEXT").add(((NamedReference) e).fieldNames()[0]); }

  /** Flattens a chain of AND or OR, which Spark nests, into one call. */
  private static void addOperands(Expression e, String name, List to) {
    Expression[] children = e.children();
    for (int i = 0; i < children.length; i++) {
      boolean chains = (name.equals("AND") || name.equals("OR")) && children[i] instanceof GeneralScalarExpression;
      if (chains && ((GeneralScalarExpression) children[i]).name().equals(name)) addOperands(children[i], name, to);
      else to.add(children[i]);
    }
  }

  /** `anyType`: only nullness matters, so the column may have any type. */
  public JsonNode column(NamedReference column, boolean anyType) {
    DataType type = typeOf(column);
    if (type == null || !anyType && !isComparedExactly(type) && !isFloat(type)) return null;
    if (isFloat(type) && !anyType) isExact = false;
    ArrayNode node = Json.array().add("c");
    String[] names = column.fieldNames();
    for (int i = 0; i < names.length; i++) node.add(names[i]);
    return node;
  }

  /** The type of a column or nested field; null if there is none of this name. */
  public DataType typeOf(NamedReference column) {
    DataType type = schema;
    String[] names = column.fieldNames();
    for (int i = 0; i < names.length; i++) {
      if (!(type instanceof StructType)) return null;
      StructField[] fields = ((StructType) type).fields();
      type = null;
      for (int k = 0; k < fields.length; k++) if (fields[k].name().equals(names[i])) type = fields[k].dataType();
    }
    return type;
  }

  private JsonNode literal(Literal literal) {
    Object value = literal.value();
    DataType t = literal.dataType();
    if (!isComparedExactly(t) && !isFloat(t)) return null;
    ArrayNode node = Json.array().add("l").add(t instanceof DecimalType ? "decimal" : typeName(t));
    if (value == null) return node.addNull();
    if (t.equals(DataTypes.StringType)) {
      // Invalid UTF-8 would become replacement characters.
      return value.toString().indexOf('\ufffd') >= 0 ? null : node.add(value.toString());
    }
    if (isFloat(t) || t instanceof DecimalType) return node.add(value.toString());
    if (t instanceof BinaryType) return node.add(Base64.getEncoder().encodeToString((byte[]) value));
    if (t instanceof BooleanType) return node.add((Boolean) value);
    long number = ((Number) value).longValue();
    boolean isTime = t instanceof TimestampType || t instanceof TimestampNTZType;
    long days = isTime ? Math.floorDiv(number, MICROS_A_DAY) : number;
    if ((isTime || t instanceof DateType) && (days < FIRST_DAY || days > LAST_DAY)) return null;
    return node.add(number);
  }

  private static String typeName(DataType t) {
    if (t instanceof ByteType) return "byte";
    if (t instanceof ShortType) return "short";
    if (t instanceof IntegerType) return "int";
    if (t instanceof LongType) return "long";
    return t.typeName();
  }

  public static boolean isFloat(DataType t) { return t instanceof FloatType || t instanceof DoubleType; }

  /** Types that the reader compares as Spark does. Strings with a collation are excluded. */
  public static boolean isComparedExactly(DataType t) {
    return t.equals(DataTypes.StringType) || t instanceof ByteType || t instanceof ShortType || t instanceof IntegerType || t instanceof LongType
        || t instanceof DateType || t instanceof TimestampType || t instanceof TimestampNTZType || t instanceof BooleanType || t instanceof DecimalType
        || t instanceof BinaryType;
  }
}
