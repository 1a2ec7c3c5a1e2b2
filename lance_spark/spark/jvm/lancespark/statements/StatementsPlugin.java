package lancespark.statements;

import lancespark.core.Addition;
import lancespark.core.Plugin;

/** Adds the statements of lance tables. */
public class StatementsPlugin extends Plugin {
  public StatementsPlugin() {}

  public Addition[] additions() { return new Addition[] { new StatementParser() }; }
}
