package lancespark.text;

import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.*;

/** A plan that returns the results of a call, and their column. `isOfSeveral`: they are of several tables, which may split texts in different ways. */
class Found {
  final LogicalPlan plan;
  final Attribute column;
  final boolean isOfSeveral;

  Found(LogicalPlan plan, Attribute column) { this(plan, column, false); }

  Found(LogicalPlan plan, Attribute column, boolean isOfSeveral) {
    this.plan = plan;
    this.column = column;
    this.isOfSeveral = isOfSeveral;
  }

  Found under(LogicalPlan node) { return new Found(node, column, isOfSeveral); }
}
