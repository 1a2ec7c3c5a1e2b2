package lancespark.planning;

import lancespark.core.Answers;
import lancespark.core.Plugin;

/** Answers Spark's driver by one Python process for each query. */
@SuppressWarnings("rawtypes")
public class PlanningPlugin extends Plugin {
  public PlanningPlugin() {}

  public Object hook(Class type) { return type == Answers.class ? new PlanningAnswers() : null; }
}
