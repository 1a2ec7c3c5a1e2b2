package lancespark.catalog;

import lancespark.protocol.Json;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The catalog for a DROP TABLE. */
@SuppressWarnings("unchecked")
class NamedTables extends NamespaceCatalog {
  NamedTables(NamespaceCatalog catalog) { initialize(catalog.name(), new CaseInsensitiveStringMap(catalog.settings())); }

  public boolean tableExists(Identifier id) { return python.ask("is_named", Json.object(), id).asBoolean(); }
}
