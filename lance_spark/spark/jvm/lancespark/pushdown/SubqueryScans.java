package lancespark.pushdown;

import java.util.*;
import lancespark.core.Walk;
import lancespark.scan.LanceScan;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Makes relations of scans of whole columns to which a condition or an aggregate applies. Spark plans a correlated subquery, with its scans,
 * before it makes a join of it, and then finds conditions on its columns, such as that the keys of the join are not null.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
class SubqueryScans extends Walk {
  public LogicalPlan changed(LogicalPlan plan) {
    if (!(plan instanceof Filter || plan instanceof Aggregate) || !(plan.children().apply(0) instanceof DataSourceV2ScanRelation)) return plan;
    DataSourceV2ScanRelation scan = (DataSourceV2ScanRelation) plan.children().apply(0);
    boolean isWhole = scan.scan() instanceof LanceScan && ((LanceScan) scan.scan()).hasAllRows() && hasWholeColumns(scan);
    if (!isWhole) return plan;
    LogicalPlan over = over(plan, Collections.singletonList((LogicalPlan) scan.relation()));
    return plan instanceof Filter ? new Project((scala.collection.immutable.Seq) scan.output(), over) : over;
  }

  /** Whether no field of a column was left out, since expressions above find fields by their places. */
  private static boolean hasWholeColumns(DataSourceV2ScanRelation scan) {
    Map types = new HashMap();
    for (Attribute column : CollectionConverters.asJava(scan.relation().output())) types.put(column.exprId(), column.dataType());
    for (Attribute column : CollectionConverters.asJava(scan.output())) {
      if (!column.dataType().equals(types.get(column.exprId()))) return false;
    }
    return true;
  }
}
