package lancespark.conditions;

import lancespark.core.Plugin;
import lancespark.core.Walk;

/** Gives scans the conditions that Spark does not push, and keeps the others in their order. */
public class ConditionsPlugin extends Plugin {
  public ConditionsPlugin() {}

  public Walk[] beforePushDown() { return new Walk[] { new ExtraConditions(), new OrderOfConditions() }; }
}
