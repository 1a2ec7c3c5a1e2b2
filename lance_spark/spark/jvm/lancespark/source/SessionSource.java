package lancespark.source;

import java.util.Map;
import lancespark.core.Answers;
import lancespark.core.SparkInternals;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;

/**
 * The Python source that a session has registered.
 *
 * To register or find a source, Spark first starts a Python process that imports each installed package with a source. This class looks only
 * at what is registered. Where this Spark keeps it elsewhere, nothing is found here, and Spark's own way is taken.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
public class SessionSource {
  private static final String NAME = "lance";

  public SessionSource() {}

  /** True if the session has the source. */
  public boolean isRegistered(SparkSession session) { return of(session) != null; }

  /** Registers the source and starts the process that answers its requests. False if only Spark itself can register it. */
  public boolean register(SparkSession session, PythonFunction function) {
    Map registered = registered(session);
    if (registered == null || refusesCopies(session)) return false;
    UserDefinedPythonDataSource source = new UserDefinedPythonDataSource(function);
    registered.put(NAME, source);
    Answers.start(source);
    return true;
  }

  /**
   * True if Spark cannot copy a session, as for cached tables and streams, that has registered a source which Spark finds by itself, too: 4.0
   * takes it for a second one.
   */
  private static boolean refusesCopies(SparkSession session) { return session.version().startsWith("4.0."); }

  /** The source of a session; null if it has registered none. */
  static UserDefinedPythonDataSource of(SparkSession session) {
    Map registered = registered(session);
    return registered == null ? null : (UserDefinedPythonDataSource) registered.get(NAME);
  }

  private static Map registered(SparkSession session) {
    try {
      Object state = ((org.apache.spark.sql.classic.SparkSession) (Object) session).sessionState();
      Object sources = SparkInternals.callIfThere(state, "dataSourceManager", new Object[0]);
      return sources == null ? null : (Map) SparkInternals.getIfThere(sources, "runtimeDataSourceBuilders");
    } catch (Exception e) {
      return null;
    }
  }
}
