package lancespark.core;

import org.apache.spark.sql.catalyst.rules.Rule;

/**
 * What a feature has for the planner. features.txt names the class of a feature's plugin; it is made if Spark has all that the feature uses.
 *
 * Nothing else refers to the classes of a feature, but features that need it. What is in these lists is new at each call.
 */
@SuppressWarnings("rawtypes")
public class Plugin {
  /** Its optimizer rules. */
  public Rule[] rules() { return new Rule[0]; }

  /** What it adds to sessions. */
  public Addition[] additions() { return new Addition[0]; }

  /** How it changes plans when their tables are known. */
  public Walk[] analysis() { return new Walk[0]; }

  /** How it changes plans before Spark pushes conditions into scans. */
  public Walk[] beforePushDown() { return new Walk[0]; }

  /** An object of a type that another part of the planner asks for, and says there what holds without one; null if the feature has none. */
  public Object hook(Class type) { return null; }
}
