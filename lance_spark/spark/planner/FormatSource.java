package lancespark;

import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;

/** The format "lance" of a session, whose requests are answered as `Answers` says. */
public class FormatSource extends PythonDataSourceV2 {
  public FormatSource() {}

  public UserDefinedPythonDataSource source() { return Answers.to(super.source()); }
}

/** What answers the requests of Spark's driver to a Python source: Spark's own processes. PlanningAnswers is the other one. */
class Answers {
  /** The same source, with what this Spark permits. */
  static UserDefinedPythonDataSource to(UserDefinedPythonDataSource source) {
    Object planning = Features.object("planning", "PlanningAnswers");
    return planning == null ? source : ((Answers) planning).in(source);
  }

  UserDefinedPythonDataSource in(UserDefinedPythonDataSource source) { return source; }
}
