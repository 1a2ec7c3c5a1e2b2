package lancespark.nearest;

import lancespark.core.Addition;
import lancespark.core.Plugin;

/** Plans joins by nearness. */
public class NearestPlugin extends Plugin {
  public NearestPlugin() {}

  public Addition[] additions() { return new Addition[] { new NearestJoins() }; }
}
