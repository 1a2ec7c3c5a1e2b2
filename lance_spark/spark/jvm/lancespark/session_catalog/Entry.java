package lancespark.session_catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.catalog.NamespaceCatalog;
import lancespark.core.Session;
import lancespark.core.SparkInternals;
import lancespark.protocol.Json;
import lancespark.protocol.Names;
import lancespark.source.SessionEntry;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType$;
import org.apache.spark.sql.catalyst.catalog.CatalogUtils$;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalog;
import org.apache.spark.sql.connector.catalog.*;
import org.apache.spark.sql.connector.write.*;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import scala.jdk.javaapi.CollectionConverters;

/** The entry of a table in the session catalog. */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
class Entry {
  /** The entry that the statement declares. The table keeps its location unless the statement has one. */
  static CatalogTable of(CatalogTable old, StructType schema, Map properties) {
    String location = (String) properties.get(TableCatalog.PROP_LOCATION);
    scala.Product storage = SparkInternals.with(old.storage(), "properties", immutable(options(old, properties)));
    if (location != null) storage = SparkInternals.with(storage, "locationUri", new scala.Some(CatalogUtils$.MODULE$.stringToURI(location)));
    scala.Product table = SparkInternals.with(old, "schema", schema);
    if (location != null) {
      boolean isManaged = "true".equalsIgnoreCase((String) properties.get(TableCatalog.PROP_IS_MANAGED_LOCATION));
      table = SparkInternals.with(table, "tableType", isManaged ? CatalogTableType$.MODULE$.MANAGED() : CatalogTableType$.MODULE$.EXTERNAL());
    }
    table = SparkInternals.with(table, "storage", storage);
    table = SparkInternals.with(table, "properties", immutable(properties));
    table = SparkInternals.with(table, "comment", scala.Option.apply(properties.get(TableCatalog.PROP_COMMENT)));
    table = SparkInternals.with(table, "collation", scala.Option.apply(properties.get(TableCatalog.PROP_COLLATION)));
    return (CatalogTable) SparkInternals.with(table, "stats", scala.Option.empty());
  }

  /** The statement's options. A table that keeps its location also keeps its storage options. */
  private static Map options(CatalogTable old, Map properties) {
    Map options = new TreeMap(String.CASE_INSENSITIVE_ORDER);
    boolean stays = properties.get(TableCatalog.PROP_LOCATION) == null;
    Iterator it = CollectionConverters.asJava(CatalogTables.hidden(old.storage().properties())).entrySet().iterator();
    while (it.hasNext() && stays) {
      Map.Entry option = (Map.Entry) it.next();
      if (((String) option.getKey()).toLowerCase(Locale.ROOT).startsWith(CatalogTables.SETTING)) options.put(option.getKey(), option.getValue());
    }
    it = properties.entrySet().iterator();
    while (it.hasNext()) {
      Map.Entry property = (Map.Entry) it.next();
      String key = (String) property.getKey();
      if (key.startsWith(TableCatalog.OPTION_PREFIX)) options.put(key.substring(TableCatalog.OPTION_PREFIX.length()), property.getValue());
    }
    options.remove("path");
    return options;
  }

  static Path path(CatalogTable entry) { return new Path(entry.location()); }

  private static Object immutable(Map map) { return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(map)); }

  /** Notes that the table has had a version, if it has: that its files are gone afterwards is an error. */
  static void note(Identifier id) {
    if (!SessionEntry.isWritten(SessionEntry.of(id))) settle(id);
  }

  /** Gives the entry of a table that has a version the columns that the table has now, and notes that it has one. */
  static void settle(Identifier id) {
    CatalogTable entry = SessionEntry.of(id);
    ObjectNode request = Json.object().put("declared", entry.schema().json());
    request.set("place", Json.object().set("options", Json.texts(SessionEntry.options(entry))));
    try {
      JsonNode loaded = NamespaceCatalog.ofPaths().python.ask("load", request, id, id.namespace());
      StructType schema = (StructType) DataType.fromJson(Json.at(loaded, "schema").asText());
      boolean isSettled = SessionEntry.isWritten(entry) && schema.equals(entry.schema());
      if (!isSettled) store((CatalogTable) SparkInternals.with(written(entry), "schema", schema));
    } catch (Throwable t) {
      if (!(t instanceof NoSuchTableException)) Platform.throwException(t);
    }
  }

  /** What Spark shows of an entry, without the options under their own names, which are there a second time under names that say so. */
  static Map properties(CatalogTable entry) {
    Map properties = new HashMap(new V1Table(entry).properties());
    properties.keySet().removeAll(CollectionConverters.asJava(entry.storage().properties()).keySet());
    properties.putAll(CollectionConverters.asJava(entry.properties()));
    properties.remove(Names.WRITTEN);
    return properties;
  }

  /** The entry with the note that the table has had a version, which has the properties that are ours from then on: constraints and so on. */
  static CatalogTable written(CatalogTable entry) {
    Map properties = new HashMap();
    for (Map.Entry property : CollectionConverters.asJava(entry.properties()).entrySet()) {
      if (!((String) property.getKey()).startsWith("lance_spark.")) properties.put(property.getKey(), property.getValue());
    }
    properties.put(Names.WRITTEN, "true");
    return (CatalogTable) SparkInternals.with(entry, "properties", immutable(properties));
  }

  static void store(CatalogTable entry) {
    ExternalCatalog catalog = Session.active().sessionState().catalog().externalCatalog();
    catalog.alterTable(entry);
    // Hive's catalog ignores the columns of alterTable.
    catalog.alterTableDataSchema((String) entry.identifier().database().get(), entry.identifier().table(), entry.schema());
  }
}
