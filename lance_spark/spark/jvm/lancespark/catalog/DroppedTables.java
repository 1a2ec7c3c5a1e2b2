package lancespark.catalog;

import lancespark.core.SparkInternals;
import org.apache.spark.sql.catalyst.analysis.ResolvedIdentifier;
import org.apache.spark.sql.catalyst.plans.logical.DropTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/**
 * The optimizer rule for DROP TABLE on a NamespaceCatalog. Spark drops what `tableExists` knows, and creates what it does not know; a table that is
 * only declared, or whose files are gone, can be both dropped and created.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
public class DroppedTables extends Rule {
  public DroppedTables() {}

  public String ruleName() { return "lance_spark.DroppedTables"; }

  public TreeNode apply(TreeNode plan) {
    if (!(plan instanceof DropTable) || !(((DropTable) plan).child() instanceof ResolvedIdentifier)) return plan;
    ResolvedIdentifier name = (ResolvedIdentifier) ((DropTable) plan).child();
    if (!(name.catalog() instanceof NamespaceCatalog) || name.catalog() instanceof NamedTables) return plan;
    LogicalPlan named = (LogicalPlan) SparkInternals.with((scala.Product) name, "catalog", new NamedTables((NamespaceCatalog) name.catalog()));
    return (LogicalPlan) SparkInternals.with((scala.Product) plan, "child", named);
  }
}
