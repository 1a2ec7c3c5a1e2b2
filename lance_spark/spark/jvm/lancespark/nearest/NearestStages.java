package lancespark.nearest;

import java.util.*;
import lancespark.core.Walk;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.UserDefinedGenerator;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.types.*;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The optimizer rule that plans the tasks of the joins that NearestJoins has found. It runs after Spark has pushed conditions and columns down.
 *
 * The plan is that of LanceTable.nearestJoin: three functions in Python over Arrow batches, with shuffles between them, or one of a small table
 * (lance_spark.spark.read.nearest_steps, which describes the columns).
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
public class NearestStages extends Rule {
  static final String NAME = "lance_spark.NearestStages";

  public NearestStages() {}

  public String ruleName() { return NAME; }

  public TreeNode apply(TreeNode plan) {
    return in((LogicalPlan) plan, null);
  }

  /** The plan with tasks, of whose columns these are `needed` (the ids; null: all). */
  private static LogicalPlan in(LogicalPlan plan, Set needed) {
    Set below = null;
    if (plan instanceof Project || plan instanceof Aggregate) below = ids(plan.references(), new HashSet());
    else if (plan instanceof Filter && needed != null) below = ids(plan.references(), new HashSet(needed));
    List<LogicalPlan> children = new ArrayList<>();
    for (LogicalPlan child : CollectionConverters.asJava(plan.children())) children.add(in(child, below));
    LogicalPlan node = Walk.over(plan, children);
    Object generator = node instanceof Generate ? ((Generate) node).generator() : null;
    if (!(generator instanceof UserDefinedGenerator) || !(((UserDefinedGenerator) generator).function() instanceof NearestCall)) return node;
    return new Stages((Generate) node, needed).planned();
  }

  private static Set ids(Object attributes, Set to) {
    for (Attribute attribute : CollectionConverters.asJava((scala.collection.Iterable<Attribute>) attributes)) to.add(attribute.exprId());
    return to;
  }
}
