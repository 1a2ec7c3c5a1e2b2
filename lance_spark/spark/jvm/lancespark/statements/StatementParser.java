package lancespark.statements;

import java.util.List;
import lancespark.core.BeforeRules;
import lancespark.core.Session;
import lancespark.core.SparkInternals;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.codehaus.janino.SimpleCompiler;

/**
 * Puts a parser in front of Spark's, or of another extension's. It takes the statements that StatementText knows, and hands over all others.
 *
 * The methods of ParserInterface differ between versions of Spark, so its class is made of those of a version (ParserSource): those of 4.0 to 4.3
 * are compiled beforehand, and Janino compiles one for others, and where the sources are compiled in the session. A proxy would not do: it wraps errors that a method does
 * not declare.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
public class StatementParser implements scala.Function2, BeforeRules {
  private static final String PACKAGE = "lancespark.statements.";
  private static Class type = null;

  public StatementParser() {}

  /** The builder of a session's parser, for injectParser. */
  public Object apply(Object session, Object next) { return before((ParserInterface) next); }

  public void addTo(SparkSessionExtensions extensions) { extensions.injectParser(this); }

  /** Puts the parser in front of that of a session which is built, also if it is in front of only a part of it. */
  public void addTo(SparkSession session) {
    Object state = ((org.apache.spark.sql.classic.SparkSession) (Object) session).sessionState();
    Object parser = SparkInternals.get(state, "sqlParser");
    if (!parser.getClass().getName().startsWith(PACKAGE)) SparkInternals.set(state, "sqlParser", before((ParserInterface) parser));
  }

  private static ParserInterface before(ParserInterface next) {
    try {
      return (ParserInterface) type().getConstructors()[0].newInstance(new Object[] { next });
    } catch (Exception e) {
      Session.LOG.warn("statements of lance tables such as OPTIMIZE are unknown in this session", e);
      return next;
    }
  }

  private static synchronized Class type() throws Exception {
    if (type == null) type = beforehand();
    if (type == null) type = compiled();
    return type;
  }

  /** The class that was compiled with this one and has the methods of this Spark's parsers; null if there is none. */
  private static Class beforehand() throws Exception {
    List names = ParserSource.beforehand();
    for (int i = 0; i < names.size(); i++) {
      try {
        Class found = Class.forName(PACKAGE + names.get(i), true, StatementParser.class.getClassLoader());
        if (ParserSource.isOfThisSpark((String) found.getField("METHODS").get(null))) return found;
      } catch (ClassNotFoundException e) {
        return null;
      }
    }
    return null;
  }

  private static Class compiled() throws Exception {
    SimpleCompiler compiler = new SimpleCompiler();
    compiler.setParentClassLoader(StatementParser.class.getClassLoader());
    compiler.cook(ParserSource.text(ParserSource.IN_SESSION));
    return compiler.getClassLoader().loadClass(PACKAGE + ParserSource.IN_SESSION);
  }
}
