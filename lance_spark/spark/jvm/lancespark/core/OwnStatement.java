package lancespark.core;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** A statement of a lance table that Spark does not know. */
public interface OwnStatement {
  /** The plan of its rows. */
  LogicalPlan answer();
}
