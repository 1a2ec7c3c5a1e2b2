package lancespark.text;

import java.util.*;
import lancespark.core.Addition;
import lancespark.protocol.Names;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.types.StringType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The functions of full-text search: whether the words of a column satisfy a query. A call becomes one TextCall for each of its columns, which
 * TextColumns replaces. What the arguments mean is known in Python, see lance_spark.predicate.text_match.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
public class TextFunction implements scala.Function1, Addition {
  private static final String[] NAMES = { Names.MATCH, Names.MATCH_PHRASE, "lance_multi_match" };
  private static final String[] USAGES = { "lance_match(column, words [, options])", "lance_match_phrase(column, words [, slop])",
      "lance_multi_match(words, [options,] column, ...)" };
  private final int number;

  public TextFunction() { this(0); }

  private TextFunction(int number) { this.number = number; }

  public Object apply(Object arguments) {
    List given = CollectionConverters.asJava((scala.collection.immutable.Seq) arguments);
    if (NAMES[number].equals("lance_multi_match")) return inAny(given);
    if (given.size() < 2 || given.size() > 3) throw usage(given.size() + " arguments");
    String option = given.size() == 3 ? constant("third argument", given.get(2)) : null;
    return new TextCall(NAMES[number], words(given.get(1)), option).on((Expression) given.get(0));
  }

  private Expression inAny(List given) {
    boolean hasOptions = given.size() > 1 && ((Expression) given.get(1)).foldable();
    int first = hasOptions ? 2 : 1;
    if (given.size() <= first) throw usage("no column");
    TextCall call = new TextCall(Names.MATCH, words(given.get(0)), hasOptions ? constant("options", given.get(1)) : null);
    Expression any = call.on((Expression) given.get(first));
    for (int i = first + 1; i < given.size(); i++) any = new Or(any, call.on((Expression) given.get(i)));
    return any;
  }

  private IllegalArgumentException usage(String found) {
    return new IllegalArgumentException(NAMES[number] + " is called as " + USAGES[number] + "; found " + found);
  }

  private String words(Object argument) {
    if (((Expression) argument).dataType() instanceof StringType) return constant("words", argument);
    throw usage("words of the type " + ((Expression) argument).dataType().simpleString());
  }

  private String constant(String shown, Object argument) {
    Object value = ((Expression) argument).foldable() ? ((Expression) argument).eval(null) : null;
    if (value != null) return value.toString();
    throw new IllegalArgumentException("the " + shown + " of " + NAMES[number] + " must be a constant that is not null");
  }

  public void addTo(SparkSessionExtensions extensions) {
    for (int i = 0; i < NAMES.length; i++) {
      ExpressionInfo info = new ExpressionInfo(TextFunction.class.getName(), NAMES[i]);
      extensions.injectFunction(new scala.Tuple3(new FunctionIdentifier(NAMES[i]), info, new TextFunction(i)));
    }
  }

  /** Adds the functions that a session lacks. */
  public void addTo(SparkSession session) {
    FunctionRegistry registry = ((org.apache.spark.sql.classic.SparkSession) (Object) session).sessionState().functionRegistry();
    Set there = new HashSet();
    for (FunctionIdentifier known : CollectionConverters.asJava(registry.listFunction())) there.add(known.funcName());
    for (int i = 0; i < NAMES.length; i++) {
      if (!there.contains(NAMES[i])) registry.createOrReplaceTempFunction(NAMES[i], new TextFunction(i), "built-in");
    }
  }
}
