package lancespark.alteration;

import lancespark.core.EntryCatalog;
import lancespark.core.Plugin;

/** Changes the columns of tables of the session catalog. */
public class AlterationPlugin extends Plugin {
  public AlterationPlugin() {}

  public Object hook(Class type) { return type == EntryCatalog.class ? new AlteringCatalog() : null; }
}
