package lancespark.resolution;

import lancespark.core.Addition;
import lancespark.core.Plugin;

/** Makes lance tables of Python sources. */
public class ResolutionPlugin extends Plugin {
  public ResolutionPlugin() {}

  public Addition[] additions() { return new Addition[] { new LanceResolution(), new EarlyNames() }; }
}
