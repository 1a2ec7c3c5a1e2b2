package lancespark.text;

import java.util.*;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.types.*;

/** A column, or a field in a column of structs. */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
class Path {
  final ExprId root;
  final List names;

  Path(ExprId root, List names) {
    this.root = root;
    this.names = names;
  }

  /** The path that an expression is; null for others. */
  static Path of(Expression e) {
    LinkedList names = new LinkedList();
    while (!(e instanceof AttributeReference)) {
      boolean keepsType = e instanceof Cast && DataType.equalsIgnoreNullability(e.dataType(), ((Expression) e.children().apply(0)).dataType());
      if (e instanceof GetStructField) names.addFirst(((GetStructField) e).childSchema().fieldNames()[((GetStructField) e).ordinal()]);
      else if (!(e instanceof Alias) && !keepsType) return null;
      e = (Expression) e.children().apply(0);
    }
    return new Path(((NamedExpression) e).exprId(), names);
  }

  /** The type of the field in a column of this type. */
  DataType in(DataType column) {
    for (int i = 0; i < names.size(); i++) column = ((StructType) column).apply((String) names.get(i)).dataType();
    return column;
  }
}
