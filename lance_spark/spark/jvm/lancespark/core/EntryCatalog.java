package lancespark.core;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension;
import org.apache.spark.sql.types.StructType;

/** The session catalog for lance tables, in which the entry of a table changes with the table. Without it, Spark's catalog changes entries alone. */
public abstract class EntryCatalog extends DelegatingCatalogExtension {
  /** The one of this Spark; null if there is none. */
  public static EntryCatalog known() { return (EntryCatalog) Plugins.hook(EntryCatalog.class); }

  /** The one in front of Spark's own; null if there is none. */
  public static EntryCatalog over(CatalogPlugin sparks) {
    EntryCatalog entries = known();
    if (entries != null) entries.setDelegateCatalog(sparks);
    return entries;
  }

  /** Raises an error for properties and columns that a lance table may not have. `columns` may be null. */
  public abstract void check(Map properties, StructType columns);
}
