package lancespark;

import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.*;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.codehaus.janino.SimpleCompiler;

/**
 * Puts a parser in front of Spark's, or of another extension's. It takes the statements that StatementText knows, and hands over all others.
 *
 * The methods of ParserInterface differ between versions of Spark, so Janino compiles its class for the version that runs. A proxy would not do:
 * it wraps errors that a method does not declare.
 */
public class StatementParser implements scala.Function2, Addition {
  private static final String NAME = "lancespark.InstalledStatementParser", TEXT = "java.lang.String";
  private static Class type = null;

  public StatementParser() {}

  /** The builder of a session's parser, for injectParser. */
  public Object apply(Object session, Object next) { return before((ParserInterface) next); }

  public void addTo(SparkSessionExtensions extensions) { extensions.injectParser(this); }

  /** Puts the parser in front of that of a session which is built, also if it is in front of only a part of it. */
  public void addTo(SparkSession session) throws Exception {
    Object state = ((org.apache.spark.sql.classic.SparkSession) (Object) session).sessionState();
    Object parser = SparkInternals.get(state, "sqlParser");
    if (!parser.getClass().getName().equals(NAME)) SparkInternals.set(state, "sqlParser", before((ParserInterface) parser));
  }

  private static ParserInterface before(ParserInterface next) {
    try {
      return (ParserInterface) compiled().getConstructors()[0].newInstance(new Object[] { next });
    } catch (Exception e) {
      LancePlanner.LOG.warn("statements of lance tables such as OPTIMIZE are unknown in this session", e);
      return next;
    }
  }

  private static synchronized Class compiled() throws Exception {
    if (type != null) return type;
    SimpleCompiler compiler = new SimpleCompiler();
    compiler.setParentClassLoader(StatementParser.class.getClassLoader());
    compiler.cook(source());
    type = compiler.getClassLoader().loadClass(NAME);
    return type;
  }

  private static String source() {
    String parser = ParserInterface.class.getName(), name = NAME.substring(NAME.lastIndexOf('.') + 1);
    StringBuilder text = new StringBuilder("package lancespark; public class " + name + " implements " + parser + " {\n");
    text.append("  private final " + parser + " next;\n  public " + name + "(" + parser + " next) { this.next = next; }\n");
    Method[] methods = ParserInterface.class.getMethods();
    for (int i = 0; i < methods.length; i++) if (!Modifier.isStatic(methods[i].getModifiers())) text.append(method(methods[i]));
    return text.append("}\n").toString();
  }

  private static String method(Method method) {
    Class[] types = method.getParameterTypes(), errors = method.getExceptionTypes();
    List parameters = new ArrayList(), arguments = new ArrayList(), thrown = new ArrayList();
    for (int i = 0; i < types.length; i++) parameters.add(types[i].getCanonicalName() + " a" + i);
    for (int i = 0; i < types.length; i++) arguments.add("a" + i);
    for (int i = 0; i < errors.length; i++) thrown.add(errors[i].getCanonicalName());
    String result = method.getReturnType().getCanonicalName(), given = String.join(", ", arguments), name = method.getName();
    String head = "  public " + result + " " + name + "(" + String.join(", ", parameters) + ")" + (thrown.isEmpty() ? "" : " throws " + String.join(", ", thrown));
    boolean isPlan = name.startsWith("parsePlan") && types.length > 0 && types[0].getName().equals(TEXT);
    String own = isPlan ? "    Object own = lancespark.LanceStatement.parsed(\"" + name + "\", new Object[] { " + given + " }, next);\n"
        + "    if (own != null) return (" + result + ") own;\n" : "";
    return head + " {\n" + own + "    " + (result.equals("void") ? "" : "return ") + "next." + name + "(" + given + ");\n  }\n";
  }
}
