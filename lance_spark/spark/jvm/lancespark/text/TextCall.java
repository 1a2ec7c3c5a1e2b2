package lancespark.text;

import java.io.Serializable;
import java.util.*;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ScalaUDF;
import org.apache.spark.sql.types.DataTypes;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A call of a text function on one column. In a plan it is a function of the column, until TextColumns replaces it. Spark cannot evaluate it: only
 * the table has the index, and knows how texts are split into words.
 */
@SuppressWarnings({"rawtypes", "unchecked", "serial"})
public class TextCall implements scala.Function1, Serializable {
  private static final String PLAIN = "abcdefghijklmnopqrstuvwxyz0123456789 _-=,";
  final String function;
  private final String words, option;

  /** `option` are the options or the slop, null if there are none. */
  TextCall(String function, String words, String option) {
    this.function = function;
    this.words = words;
    this.option = option;
  }

  /** The call with this column, in a plan. */
  Expression on(Expression column) {
    Object one = CollectionConverters.asScala(Collections.singletonList(column)).toSeq(), none = scala.collection.immutable.Nil$.MODULE$;
    return new ScalaUDF(this, DataTypes.BooleanType, (scala.collection.immutable.Seq) one, (scala.collection.immutable.Seq) none, scala.Option.empty(),
        new scala.Some(function), true, true);
  }

  /** The call that an expression is; null for others. */
  static TextCall of(Expression e) {
    Object function = e instanceof ScalaUDF ? ((ScalaUDF) e).function() : null;
    return function instanceof TextCall ? (TextCall) function : null;
  }

  /**
   * The name of the column with the results of the call for a column of the table, from which Python takes all that it must know. PlanJson knows
   * it by its beginning. It has no letters of which Spark could ignore the case.
   */
  String nameFor(List path) {
    StringBuilder out = new StringBuilder(function).append("([");
    for (int i = 0; i < path.size(); i++) quote((String) path.get(i), out.append(i > 0 ? ", " : ""));
    quote(words, out.append("], "));
    if (option != null) quote(option, out.append(", "));
    return out.append(")").toString();
  }

  private static void quote(String text, StringBuilder to) {
    to.append('"');
    for (int i = 0; i < text.length(); i++) {
      boolean isPlain = PLAIN.indexOf(text.charAt(i)) >= 0;
      to.append(isPlain ? text.substring(i, i + 1) : "\\u" + Integer.toHexString(text.charAt(i) | 0x10000).substring(1));
    }
    to.append('"');
  }

  public Object apply(Object text) {
    throw new UnsupportedOperationException(function + " needs a column that can be traced to a lance table: query the table itself, or a view of it");
  }

  public boolean equals(Object other) { return other instanceof TextCall && ((TextCall) other).key().equals(key()); }
  public int hashCode() { return key().hashCode(); }
  private List key() { return Arrays.asList(new Object[] { function, words, option }); }
}
