package lancespark.core;

import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;

/** What answers the requests of Spark's driver to a Python source: Spark's own processes. PlanningAnswers is the other one. */
public class Answers {
  /** The same source, with what this Spark permits. */
  public static UserDefinedPythonDataSource to(UserDefinedPythonDataSource source) {
    return chosen().in(source);
  }

  /** Starts what answers, so that the first request does not wait for it. Does not wait itself. */
  public static void start(UserDefinedPythonDataSource source) { chosen().startFor(source); }

  private static Answers chosen() {
    Object planning = Plugins.hook(Answers.class);
    return planning == null ? new Answers() : (Answers) planning;
  }

  public UserDefinedPythonDataSource in(UserDefinedPythonDataSource source) { return source; }
  public void startFor(UserDefinedPythonDataSource source) {}
}
