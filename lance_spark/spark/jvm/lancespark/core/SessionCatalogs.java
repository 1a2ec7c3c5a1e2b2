package lancespark.core;

import java.util.*;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;

/**
 * The catalogs of the active session, as Spark's CatalogManager has them. That is a class before Spark 4.2 and an interface since then, and
 * compiled code that calls the one fails with the other. So its methods are called by their names.
 */
public final class SessionCatalogs {
  /** The name of Spark's own catalog. */
  public static final String SESSION = "spark_catalog";
  private final Object manager;

  private SessionCatalogs(Object manager) { this.manager = manager; }

  public static SessionCatalogs active() { return new SessionCatalogs(Session.active().sessionState().catalogManager()); }

  public CatalogPlugin catalog(String name) { return (CatalogPlugin) call("catalog", new Object[] { name }); }
  /** The catalog that a name begins with, or else the current one. */
  public CatalogPlugin of(List<?> parts) { return hasCatalog(parts) ? catalog((String) parts.get(0)) : currentCatalog(); }

  /** Whether a name of something in a catalog begins with the catalog's. */
  public boolean hasCatalog(List<?> parts) { return parts.size() > 1 && isCatalogRegistered((String) parts.get(0)); }

  public CatalogPlugin currentCatalog() { return (CatalogPlugin) call("currentCatalog", new Object[0]); }
  public String[] currentNamespace() { return (String[]) call("currentNamespace", new Object[0]); }
  public boolean isCatalogRegistered(String name) { return ((Boolean) call("isCatalogRegistered", new Object[] { name })).booleanValue(); }
  public CatalogPlugin v2SessionCatalog() { return (CatalogPlugin) call("v2SessionCatalog", new Object[0]); }

  private Object call(String name, Object[] arguments) { return SparkInternals.callIfThere(manager, name, arguments); }
}
