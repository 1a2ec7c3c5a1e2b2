package lancespark.pushdown;

import lancespark.core.Walk;
import lancespark.source.Source;
import lancespark.table.LanceTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;

/** Replaces relations and finished scans, and counts them. */
public class LanceRelations extends Walk {
  public int scans = 0;

  public LogicalPlan changed(LogicalPlan plan) {
    if (plan instanceof DataSourceV2ScanRelation) {
      DataSourceV2ScanRelation scan = (DataSourceV2ScanRelation) plan;
      if (!(scan.scan() instanceof PythonScan) || !Source.isOf(scan.relation().table())) return plan;
      scans++;
      return LanceTable.relation(scan.relation(), scan.output());
    }
    if (!(plan instanceof DataSourceV2Relation)) return plan;
    DataSourceV2Relation relation = (DataSourceV2Relation) plan;
    return Source.isOf(relation.table()) ? LanceTable.relation(relation, relation.output()) : plan;
  }
}
