package lancespark.pushdown;

import lancespark.core.Features;
import lancespark.core.SparkInternals;
import lancespark.core.Walk;
import lancespark.table.LanceTable;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.V2ScanRelationPushDown$;

/**
 * The rule that runs right before Spark's push-down and tries whether it succeeds.
 *
 * Spark fails to express some conditions for a source, such as `(a OR NULL) = b` and what it makes itself of `(tinyint >= -128) = b`, and with
 * it fails the query. Then this rule pushes down what it can: parts of the plan, or only columns. It also adds ExtraConditions, and lets Spark
 * push conditions and aggregates into the scans of what was a subquery (SubqueryScans).
 */
@SuppressWarnings({"rawtypes", "unchecked"})
public class PushDownTrial extends Rule {
  public PushDownTrial() {}

  public String ruleName() { return "lance_spark.PushDownTrial"; }

  public TreeNode apply(TreeNode plan) {
    if (!Features.areKnown("scan")) return plan;
    LogicalPlan given = PushDown.withConditions(reopened((LogicalPlan) plan));
    try {
      Sources sources = new Sources();
      LogicalPlan own = sources.in(given);
      if (sources.lance == 0) return given;
      try {
        V2ScanRelationPushDown$.MODULE$.apply(own);
        return given;
      } catch (Throwable t) {
        PushDown.warn(t);
        return new Parts().in(given);
      }
    } catch (Throwable t) {
      PushDown.warn(t);
      return plan;
    }
  }

  private static LogicalPlan reopened(LogicalPlan plan) {
    try {
      return new SubqueryScans().in(plan);
    } catch (Throwable t) {
      PushDown.warn(t);
      return plan;
    }
  }

  private static boolean isLance(LogicalPlan plan) {
    return plan instanceof DataSourceV2Relation && ((DataSourceV2Relation) plan).table() instanceof LanceTable;
  }

  /** Counts relations, and removes those of other sources, which are not to be asked twice. */
  static class Sources extends Walk {
    int lance = 0, others = 0;

    public LogicalPlan changed(LogicalPlan plan) {
      if (isLance(plan)) lance++;
      if (!(plan instanceof DataSourceV2Relation) || isLance(plan)) return plan;
      others++;
      return LocalRelation$.MODULE$.apply((scala.collection.immutable.Seq) ((DataSourceV2Relation) plan).output());
    }
  }

  /** Makes scans of the largest parts of a plan for which that succeeds. */
  static class Parts extends Walk {
    public LogicalPlan changed(LogicalPlan plan) {
      Sources sources = new Sources();
      sources.in(plan);
      if (sources.lance == 0 || sources.others > 0) return plan;
      LogicalPlan scans = scans(plan);
      if (scans == null) scans = scans(new ColumnsOnly().in(plan));
      return scans == null ? plan : scans;
    }

    private static LogicalPlan scans(LogicalPlan plan) {
      try {
        return V2ScanRelationPushDown$.MODULE$.apply(plan);
      } catch (Throwable t) {
        return null;
      }
    }
  }

  /** Lance tables that take no conditions. */
  static class ColumnsOnly extends Walk {
    public LogicalPlan changed(LogicalPlan plan) {
      if (!isLance(plan)) return plan;
      LanceTable table = (LanceTable) ((DataSourceV2Relation) plan).table();
      return (LogicalPlan) SparkInternals.with((DataSourceV2Relation) plan, "table", table.takingColumnsOnly());
    }
  }
}
