package lancespark.core;

import org.apache.spark.sql.catalyst.rules.Rule;

/** Gives every session the same rule. */
@SuppressWarnings("rawtypes")
public class RuleBuilder implements scala.Function1 {
  private final Rule rule;

  public RuleBuilder(Rule rule) { this.rule = rule; }

  public Object apply(Object session) { return rule; }
}
