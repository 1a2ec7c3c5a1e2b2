package lancespark.statements;

import java.io.File;
import java.io.FileWriter;
import java.io.IOException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.*;
import org.apache.spark.sql.catalyst.parser.ParserInterface;

/**
 * The source of the parser that StatementParser puts in front of another: each method of ParserInterface, handed over to the other parser,
 * after those that parse a plan have asked LanceStatement.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
public class ParserSource {
  /** The class that a session compiles. A class loader would find one of `beforehand` in place of another class of its name. */
  static final String IN_SESSION = "SessionStatementParser";
  private static final String BEFOREHAND = "InstalledStatementParser";
  /** The methods that came to ParserInterface with a version of Spark, the newest version first. */
  private static final String[][] CAME = { { "4.3", "parseTemporalTableIdentifier", "splitStatements" }, { "4.1", "parsePlanWithParameters" } };
  private static final String PARSER = ParserInterface.class.getName(), TEXT = "java.lang.String";
  private static final String RAW_TYPES = "@SuppressWarnings(\"rawtypes\")\n";

  private ParserSource() {}

  /**
   * Writes the sources of the classes of `beforehand` for the newest Spark, which is on the class path. Each is in a folder of its own, beside its
   * ParserInterface: without that, the compiler would ask for methods that came later.
   */
  public static void main(String[] arguments) throws IOException {
    List methods = methods(), names = beforehand();
    for (int i = 0; i < names.size(); i++) {
      String name = (String) names.get(i);
      File folder = new File(arguments[0], name);
      folder.mkdirs();
      write(new File(folder, name + ".java"), text(name, methods));
      write(new File(folder, "ParserInterface.java"), parserInterface(methods));
      if (i < CAME.length) methods = without(methods, CAME[i]);
    }
  }

  private static void write(File file, String text) throws IOException {
    FileWriter writer = new FileWriter(file);
    try {
      writer.write(text);
    } finally {
      writer.close();
    }
  }

  /**
   * The names of the classes that are compiled with this one: for the newest Spark, and for those before a method came. One class for all
   * would not do: in a Spark without a method's types, reflection of the whole class fails.
   */
  static List beforehand() {
    List names = new ArrayList();
    names.add(BEFOREHAND);
    for (int i = 0; i < CAME.length; i++) names.add(BEFOREHAND + "Before" + CAME[i][0].replace(".", "_"));
    return names;
  }

  /** The source of a class of this name for the Spark of the class path. */
  static String text(String name) { return text(name, methods()); }

  private static String text(String name, List methods) {
    StringBuilder text = new StringBuilder("package lancespark.statements;\n\n");
    text.append(RAW_TYPES + "public class " + name + " implements " + PARSER + " {\n");
    text.append("  public static final String METHODS = \"" + signatures(methods) + "\";\n");
    text.append("  private final " + PARSER + " next;\n\n  public " + name + "(" + PARSER + " next) { this.next = next; }\n");
    for (int i = 0; i < methods.size(); i++) text.append("\n" + method((Method) methods.get(i)));
    return text.append("}\n").toString();
  }

  private static String parserInterface(List methods) {
    StringBuilder text = new StringBuilder("package " + ParserInterface.class.getPackage().getName() + ";\n\n");
    text.append(RAW_TYPES + "public interface ParserInterface extends DataTypeParserInterface {\n");
    for (int i = 0; i < methods.size(); i++) text.append("  " + head((Method) methods.get(i)) + ";\n");
    return text.append("}\n").toString();
  }

  private static List without(List methods, String[] came) {
    List found = new ArrayList();
    for (int i = 0; i < methods.size(); i++) if (!Arrays.asList(came).contains(((Method) methods.get(i)).getName())) found.add(methods.get(i));
    return found;
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

  private static String head(Method method) {
    Class[] errors = method.getExceptionTypes();
    List thrown = new ArrayList();
    for (int i = 0; i < errors.length; i++) thrown.add(errors[i].getCanonicalName());
    String declared = method.getReturnType().getCanonicalName() + " " + method.getName() + "(" + String.join(", ", parameters(method, "a")) + ")";
    return "public " + declared + (thrown.isEmpty() ? "" : " throws " + String.join(", ", thrown));
  }

  private static String method(Method method) {
    Class[] types = method.getParameterTypes();
    List arguments = new ArrayList();
    for (int i = 0; i < types.length; i++) arguments.add("a" + i);
    String result = method.getReturnType().getCanonicalName(), given = String.join(", ", arguments), name = method.getName();
    boolean isPlan = name.startsWith("parsePlan") && types.length > 0 && types[0].getName().equals(TEXT);
    String own = isPlan ? "    Object own = LanceStatement.parsed(\"" + name + "\", new Object[] { " + given + " }, next);\n"
        + "    if (own != null) return (" + result + ") own;\n" : "";
    return "  " + head(method) + " {\n" + own + "    " + (result.equals("void") ? "" : "return ") + "next." + name + "(" + given + ");\n  }\n";
  }
}
