package lancespark.core;

import java.util.*;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.jdk.javaapi.CollectionConverters;

/** A walk through a plan from its root to its leaves. */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
public abstract class Walk {
  /** Returns the replacement of a node, or the node itself. */
  public abstract LogicalPlan changed(LogicalPlan plan);

  public LogicalPlan in(LogicalPlan plan) {
    LogicalPlan node = changed(plan);
    if (node != plan) return node;
    List<LogicalPlan> children = new ArrayList<>();
    for (LogicalPlan child : CollectionConverters.asJava(plan.children())) children.add(in(child));
    return over(plan, children);
  }

  /** The node over these children: the node itself if it has just these. */
  public static LogicalPlan over(LogicalPlan plan, List<LogicalPlan> children) {
    List<LogicalPlan> before = CollectionConverters.asJava(plan.children());
    boolean isSame = true;
    for (int i = 0; i < before.size(); i++) isSame = isSame && children.get(i) == before.get(i);
    return isSame ? plan : (LogicalPlan) plan.withNewChildren(CollectionConverters.asScala(children).toSeq());
  }
}
