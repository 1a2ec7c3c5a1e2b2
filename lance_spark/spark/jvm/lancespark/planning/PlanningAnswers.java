package lancespark.planning;

import lancespark.core.Answers;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;

/** Answers requests by PlanningProcess. */
public class PlanningAnswers extends Answers {
  public PlanningAnswers() {}

  public UserDefinedPythonDataSource in(UserDefinedPythonDataSource source) { return new PlanningSource(source.dataSourceCls()); }
  public void startFor(UserDefinedPythonDataSource source) { PlanningProcess.startAhead(source.dataSourceCls()); }
}
