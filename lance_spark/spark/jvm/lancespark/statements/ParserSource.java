package lancespark.statements;

import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.*;
import org.apache.spark.sql.catalyst.parser.ParserInterface;

/**
 * The source of the parser that StatementParser puts in front of another: each method of ParserInterface, handed over to the other parser,
 * after those that parse a plan have asked LanceStatement.
 */
public class ParserSource {
  /** The class that is compiled with this one, and that which a session compiles: a class loader would find the first one in place of the second. */
  static final String BEFOREHAND = "InstalledStatementParser", IN_SESSION = "SessionStatementParser";
  private static final String PARSER = ParserInterface.class.getName(), TEXT = "java.lang.String";

  private ParserSource() {}

  /** Prints the source for the Spark of the class path. */
  public static void main(String[] arguments) { System.out.print(text(BEFOREHAND)); }

  /** The source of a class of this name. */
  static String text(String name) {
    List methods = methods();
    StringBuilder text = new StringBuilder("package lancespark.statements;\n\npublic class " + name + " implements " + PARSER + " {\n");
    text.append("  public static final String METHODS = \"" + signatures(methods) + "\";\n");
    text.append("  private final " + PARSER + " next;\n\n  public " + name + "(" + PARSER + " next) { this.next = next; }\n");
    for (int i = 0; i < methods.size(); i++) text.append("\n" + method((Method) methods.get(i)));
    return text.append("}\n").toString();
  }

  /** True if `signatures` made this text of the methods of this Spark's ParserInterface: of others, reflection would not find the classes. */
  static boolean isOfThisSpark(String signatures) { return signatures.equals(signatures(methods())); }

  private static List methods() {
    List found = new ArrayList();
    Method[] all = ParserInterface.class.getMethods();
    for (int i = 0; i < all.length; i++) if (!Modifier.isStatic(all[i].getModifiers())) found.add(all[i]);
    return found;
  }

  private static String signatures(List methods) {
    List all = new ArrayList();
    for (int i = 0; i < methods.size(); i++) all.add(signature((Method) methods.get(i)));
    Collections.sort(all);
    return String.join(";", all);
  }

  private static String signature(Method method) {
    return method.getReturnType().getCanonicalName() + " " + method.getName() + "(" + String.join(", ", parameters(method, "")) + ")";
  }

  /** The types of the parameters, and their names if `prefix` is not empty. */
  private static List parameters(Method method, String prefix) {
    Class[] types = method.getParameterTypes();
    List all = new ArrayList();
    for (int i = 0; i < types.length; i++) all.add(types[i].getCanonicalName() + (prefix.isEmpty() ? "" : " " + prefix + i));
    return all;
  }

  private static String method(Method method) {
    Class[] types = method.getParameterTypes(), errors = method.getExceptionTypes();
    List arguments = new ArrayList(), thrown = new ArrayList();
    for (int i = 0; i < types.length; i++) arguments.add("a" + i);
    for (int i = 0; i < errors.length; i++) thrown.add(errors[i].getCanonicalName());
    String result = method.getReturnType().getCanonicalName(), given = String.join(", ", arguments), name = method.getName();
    String declared = result + " " + name + "(" + String.join(", ", parameters(method, "a")) + ")";
    String head = "  public " + declared + (thrown.isEmpty() ? "" : " throws " + String.join(", ", thrown));
    boolean isPlan = name.startsWith("parsePlan") && types.length > 0 && types[0].getName().equals(TEXT);
    String own = isPlan ? "    Object own = LanceStatement.parsed(\"" + name + "\", new Object[] { " + given + " }, next);\n"
        + "    if (own != null) return (" + result + ") own;\n" : "";
    return head + " {\n" + own + "    " + (result.equals("void") ? "" : "return ") + "next." + name + "(" + given + ");\n  }\n";
  }
}
