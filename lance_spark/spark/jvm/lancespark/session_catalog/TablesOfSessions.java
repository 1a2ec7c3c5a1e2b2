package lancespark.session_catalog;

import lancespark.core.Addition;
import lancespark.core.RuleBuilder;
import lancespark.core.Session;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;

/**
 * Puts SessionTables into sessions. A session that is made of another has the rules of its extensions and no SessionTables yet: so a rule puts it
 * there, which runs before Spark looks up the tables of the first statement.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
class TablesOfSessions extends Rule implements Addition {
  public String ruleName() { return "lance_spark.TablesOfSessions"; }

  public TreeNode apply(TreeNode plan) {
    SessionTables.putInto(Session.active());
    return plan;
  }

  public void addTo(SparkSessionExtensions extensions) { extensions.injectHintResolutionRule(new RuleBuilder(this)); }

  public void addTo(SparkSession session) { SessionTables.putInto((org.apache.spark.sql.classic.SparkSession) (Object) session); }
}
