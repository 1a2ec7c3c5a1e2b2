package lancespark.row_level;

import lancespark.core.Plugin;
import org.apache.spark.sql.catalyst.rules.Rule;

/** Runs DELETE, UPDATE and MERGE INTO. */
@SuppressWarnings("rawtypes")
public class RowLevelPlugin extends Plugin {
  public RowLevelPlugin() {}

  public Rule[] rules() { return new Rule[] { new RowLevelCommands() }; }
}
