package lancespark;

import java.util.*;
import lancespark.core.Addition;
import lancespark.core.Features;
import lancespark.core.Plugins;
import lancespark.core.ReplaceGuard;
import lancespark.core.RuleBuilder;
import lancespark.core.Session;
import lancespark.pushdown.LanceRelations;
import lancespark.pushdown.PushDown;
import lancespark.pushdown.PushDownTrial;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.V2ScanRelationPushDown$;

/**
 * The optimizer rule that lets Spark push columns, filters, limits and aggregates into lance scans.
 *
 * Spark plans every Python source as a scan of all columns. This rule replaces the table of such a scan by LanceTable, whose scan builder
 * implements the public connector interfaces, and then runs Spark's own V2ScanRelationPushDown. So Spark's rules decide what is pushed, and
 * Catalyst expressions are not translated here.
 *
 * Janino compiles these sources at run time on Spark 4.0 to 4.3. It supports neither lambdas nor type inference, hence the
 * casts. features.txt lists everything that is not in Spark's public connector API.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
public class LancePlanner extends Rule {

  public LancePlanner() {}

  public String ruleName() { return Session.PUSH_DOWN; }

  /**
   * As a session extension, this rule runs before Spark's push-down and gets relations. As an extra optimization, it runs after the push-down,
   * gets finished scans and repeats the push-down. After a failure the plan stays unchanged, which is slower but correct.
   */
  public TreeNode apply(TreeNode plan) {
    if (!Features.areKnown("scan")) return plan;
    try {
      LanceRelations relations = new LanceRelations();
      LogicalPlan swapped = relations.in((LogicalPlan) plan);
      return relations.scans > 0 ? (LogicalPlan) V2ScanRelationPushDown$.MODULE$.apply(PushDown.withConditions(swapped)) : swapped;
    } catch (Throwable t) {
      PushDown.warn(t);
      return plan;
    }
  }

  /** Installs the rules through spark.sql.extensions, or into the extensions of an existing session. */
  public static class Extensions implements scala.Function1 {
    private static final Map done = Collections.synchronizedMap(new WeakHashMap());

    public Object apply(Object extensions) {
      if (done.put(extensions, Boolean.TRUE) == null) add((SparkSessionExtensions) extensions);
      return scala.runtime.BoxedUnit.UNIT;
    }

    private static void add(SparkSessionExtensions extensions) {
      List additions = Plugins.additions(), rules = rules();
      for (int i = 0; i < additions.size(); i++) ((Addition) additions.get(i)).addTo(extensions);
      for (int i = 0; i < rules.size(); i++) extensions.injectOptimizerRule(new RuleBuilder((Rule) rules.get(i)));
      extensions.injectPreCBORule(new RuleBuilder(new PushDownTrial()));
    }

    /** The optimizer rules, in their order. */
    public static List rules() {
      List all = new ArrayList(Plugins.rules());
      all.add(new LancePlanner());
      all.add(new ReplaceGuard());
      return all;
    }

    /** Adds to a session that is built its rules, as extra optimizations, and what is not an optimizer rule. */
    public void addTo(SparkSession session) throws Exception {
      ReplaceGuard.addTo(session, rules());
      List additions = Plugins.additions();
      for (int i = 0; i < additions.size(); i++) ((Addition) additions.get(i)).addTo(session);
    }

    /** Why a feature is not there; empty if it is. */
    public String complaint(String feature) { return Features.complaint(feature); }
  }
}
