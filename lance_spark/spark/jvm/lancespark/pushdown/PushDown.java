package lancespark.pushdown;

import lancespark.core.Plugins;
import lancespark.core.Session;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** What the rules that push down have in common. */
public final class PushDown {
  private static final int WARNINGS = 3;
  private static int failures = 0;

  private PushDown() {}

  /** Says why a query is slower than it could be, a few times. */
  public static void warn(Throwable reason) {
    if (failures++ < WARNINGS) Session.LOG.warn("push-down failed: the query reads whole lance tables", reason);
  }

  /** The plan with the conditions that Spark does not push, and with others in their order; after a failure as it is. */
  public static LogicalPlan withConditions(LogicalPlan plan) {
    try {
      return Plugins.readyForPushDown(plan);
    } catch (Throwable t) {
      warn(t);
      return plan;
    }
  }
}
