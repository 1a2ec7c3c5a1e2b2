package lancespark.functions;

import lancespark.core.Addition;
import lancespark.core.Plugin;

/** Adds lance_scan, and the functions that search. */
public class FunctionsPlugin extends Plugin {
  public FunctionsPlugin() {}

  public Addition[] additions() { return new Addition[] { new LanceScanFunction() }; }
}
