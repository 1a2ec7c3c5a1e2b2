package lancespark.session_catalog;

import lancespark.core.Plugin;
import org.apache.spark.sql.catalyst.rules.Rule;

/** Gives statements on tables of the session catalog their options. */
public class SessionCatalogPlugin extends Plugin {
  public SessionCatalogPlugin() {}

  public Rule[] rules() { return new Rule[] { new CatalogTables() }; }
}
