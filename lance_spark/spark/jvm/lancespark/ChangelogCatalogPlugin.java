package lancespark;

import lancespark.catalog.NamespaceCatalog;
import lancespark.core.Plugin;

/** Has the catalog of lance tables with Spark's changelogs. */
@SuppressWarnings("rawtypes")
public class ChangelogCatalogPlugin extends Plugin {
  public ChangelogCatalogPlugin() {}

  public Object hook(Class type) { return type == NamespaceCatalog.class ? new ChangelogCatalog() : null; }
}
