package lancespark.core;

import java.util.*;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.jdk.javaapi.CollectionConverters;

/** A walk through a plan from its root to its leaves. */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
public abstract class Walk {
  /** Returns the replacement of a node, or the node itself. */
  public abstract LogicalPlan changed(LogicalPlan plan) throws Exception;

  public LogicalPlan in(LogicalPlan plan) throws Exception {
    LogicalPlan node = changed(plan);
    if (node != plan) return node;
    List children = new ArrayList();
    boolean isChanged = false;
    Iterator it = CollectionConverters.asJava(plan.children()).iterator();
    while (it.hasNext()) {
      LogicalPlan child = (LogicalPlan) it.next();
      LogicalPlan now = in(child);
      isChanged = isChanged || now != child;
      children.add(now);
    }
    return isChanged ? (LogicalPlan) plan.withNewChildren(CollectionConverters.asScala(children).toSeq()) : plan;
  }
}
