package lancespark.core;

import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;

/** What answers the requests of Spark's driver to a Python source: Spark's own processes. PlanningAnswers is the other one. */
public class Answers {
  /** The same source, with what this Spark permits. */
  public static UserDefinedPythonDataSource to(UserDefinedPythonDataSource source) {
    Object planning = Plugins.hook(Answers.class);
    return planning == null ? source : ((Answers) planning).in(source);
  }

  public UserDefinedPythonDataSource in(UserDefinedPythonDataSource source) { return source; }
}
