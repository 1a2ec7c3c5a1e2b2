package lancespark;

import lancespark.catalog.DroppedTables;
import lancespark.catalog.NamespaceCatalog;
import lancespark.core.Plugin;
import org.apache.spark.sql.catalyst.rules.Rule;

/** Has the catalog of lance tables, by the name that users set. */
@SuppressWarnings("rawtypes")
public class LanceCatalogPlugin extends Plugin {
  public LanceCatalogPlugin() {}

  public Rule[] rules() { return new Rule[] { new DroppedTables() }; }
  public Object hook(Class type) { return type == NamespaceCatalog.class ? new LanceCatalog() : null; }
}
