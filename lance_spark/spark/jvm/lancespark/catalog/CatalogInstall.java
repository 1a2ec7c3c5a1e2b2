package lancespark.catalog;

import java.lang.reflect.Field;
import java.util.Map;
import lancespark.core.Plugins;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Adds a catalog to a session that is running. Spark itself makes catalogs only of classes on its class path. */
@SuppressWarnings({"rawtypes", "unchecked"})
public class CatalogInstall {
  public CatalogInstall() {}

  /** The session gets the catalog `name`, in place of one of this name that it may have. Returns the class of the catalog. */
  public String add(SparkSession session, String name, Map settings) throws Exception {
    NamespaceCatalog catalog = (NamespaceCatalog) Plugins.hook(NamespaceCatalog.class);
    catalog.initialize(name, new CaseInsensitiveStringMap(settings));
    Object manager = ((org.apache.spark.sql.classic.SparkSession) (Object) session).sessionState().catalogManager();
    synchronized (manager) {
      ((scala.collection.mutable.Map) field(manager.getClass(), "catalogs").get(manager)).put(name, catalog);
    }
    return catalog.getClass().getName();
  }

  /** The class that declares the field depends on the version of Spark, so the field is not in features.txt. */
  public static Field field(Class type, String name) throws NoSuchFieldException {
    for (Class c = type; c != null; c = c.getSuperclass()) {
      Field[] fields = c.getDeclaredFields();
      for (int i = 0; i < fields.length; i++) {
        if (!fields[i].getName().equals(name)) continue;
        fields[i].setAccessible(true);
        return fields[i];
      }
    }
    throw new NoSuchFieldException(name);
  }
}
