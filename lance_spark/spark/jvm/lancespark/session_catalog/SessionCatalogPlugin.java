package lancespark.session_catalog;

import lancespark.core.Addition;
import lancespark.core.Plugin;
import org.apache.spark.sql.catalyst.rules.Rule;

/** Opens lance tables of the session catalog as those of catalogs of lance tables. */
@SuppressWarnings("rawtypes")
public class SessionCatalogPlugin extends Plugin {
  public SessionCatalogPlugin() {}

  public Rule[] rules() { return new Rule[] { new CatalogTables() }; }
  public Addition[] additions() { return new Addition[] { new TablesOfSessions() }; }
}
