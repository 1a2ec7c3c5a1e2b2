package lancespark.scan;

import java.math.BigDecimal;
import lancespark.protocol.Json;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** Writes conditions of Spark for Python, one a line: its name, whether they are exact, and the JSON. The Java half of tests/spark/test_java.py. */
public final class PlanJsonMain {
  private static final StructType SCHEMA = new StructType().add("id", "bigint").add("s", "string").add("x", "double").add("day", "date")
      .add("price", "decimal(10,2)").add("b", "binary").add("at", new StructType().add("place", "string")).add("tags", "array<string>").add("a.b", "int");

  private PlanJsonMain() {}

  public static void main(String[] arguments) {
    Expression id = column("id"), s = column("s"), x = column("x");
    Expression above = call(">", id, literal(5L, DataTypes.LongType)), red = call("=", s, text("it's \u00e9\ud83d\ude00 \"red\""));
    write("compared", above);
    write("of text", red);
    write("of floats", call("<=", x, literal(0.5, DataTypes.DoubleType)));
    write("infinite", call("<", x, literal(Double.POSITIVE_INFINITY, DataTypes.DoubleType)));
    write("of a date", call(">=", column("day"), literal(19000, DataTypes.DateType)));
    write("of a decimal", call("=", column("price"), literal(Decimal.apply(new BigDecimal("12.50")), DataTypes.createDecimalType(10, 2))));
    write("of bytes", call("=", column("b"), literal(new byte[] { 0, -1 }, DataTypes.BinaryType)));
    write("nested", call("=", column("at", "place"), text("here")));
    write("with a point", call("=", column("a.b"), literal(1, DataTypes.IntegerType)));
    write("chained", call("AND", call("AND", above, red), call("IS_NOT_NULL", column("tags"))));
    write("either", call("OR", call("NOT", above), call("IS_NULL", x)));
    write("in a list", call("IN", id, literal(1L, DataTypes.LongType), literal(2L, DataTypes.LongType)));
    write("at the begin", call("STARTS_WITH", s, text("re%d")));
    write("unknown", call("LENGTH", s));
    write("of an array", call("=", column("tags"), column("tags")));
    write("before year 1", call("<", column("day"), literal(-800000, DataTypes.DateType)));
    write("of what is not there", call("=", column("gone"), text("x")));
  }

  private static void write(String name, Expression condition) {
    PlanJson json = new PlanJson(SCHEMA);
    Object found = json.expression(condition);
    System.out.println(name + "\t" + json.isExact + "\t" + (found == null ? "null" : Json.text((com.fasterxml.jackson.databind.JsonNode) found)));
  }

  private static Expression column(String... names) {
    StringBuilder name = new StringBuilder();
    for (String part : names) name.append(name.length() == 0 ? "" : ".").append('`').append(part).append('`');
    return Expressions.column(name.toString());
  }

  private static Expression call(String name, Expression... operands) { return new GeneralScalarExpression(name, operands); }
  private static Expression text(String text) { return literal(UTF8String.fromString(text), DataTypes.StringType); }
  private static Expression literal(Object value, DataType type) { return new LiteralValue<Object>(value, type); }
}
