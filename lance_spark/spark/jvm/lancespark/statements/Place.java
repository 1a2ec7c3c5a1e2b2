package lancespark.statements;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.catalog.NamespaceCatalog;
import lancespark.core.OfLanceTables;
import lancespark.core.Session;
import lancespark.core.SessionCatalogs;
import lancespark.core.SqlNames;
import lancespark.functions.SearchFunction;
import lancespark.protocol.Json;
import lancespark.protocol.Names;
import lancespark.table.LanceTable;
import lancespark.table.WholeTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation$;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/** Where a lance table is: the catalog that reaches it, and what the requests of its procedures say of the table. */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
class Place {
  final NamespaceCatalog catalog;
  final ObjectNode json = Json.object();
  final Identifier id;
  /** The entry of a table of the session catalog, else null. */
  final Identifier entry;
  /** The table as Spark has it; null for a path. */
  private DataSourceV2Relation named;

  private Place(NamespaceCatalog catalog, String key, JsonNode value, Identifier id, Identifier entry) {
    this.catalog = catalog;
    this.json.set(key, value);
    this.id = id;
    this.entry = entry;
  }

  /** The place of the table, or of the table of a view, with these names; null if it is not a lance table. Raises the error of a NamespaceCatalog. */
  static Place of(List names) throws Throwable {
    SessionCatalogs manager = SessionCatalogs.active();
    String first = (String) names.get(0), last = (String) names.get(names.size() - 1);
    boolean isPath = names.size() == 2 && first.equalsIgnoreCase(Names.FORMAT) && last.indexOf('/') >= 0;
    Map path = Collections.singletonMap("path", last);
    if (isPath && !manager.isCatalogRegistered(first)) return at(path, names, null);
    LogicalPlan found;
    try {
      found = Session.active().table(SqlNames.quoted(Json.of(names))).queryExecution().analyzed();
    } catch (Throwable t) {
      // To open the path says more than Spark does.
      if (isPath && manager.catalog(first) instanceof NamespaceCatalog) return at(path, names, null);
      if (manager.of(names) instanceof NamespaceCatalog) throw t;
      return null;
    }
    DataSourceV2Relation relation = WholeTable.of(found);
    boolean isOfLance = relation != null || manager.of(names) instanceof NamespaceCatalog;
    if (isOfLance && WholeTable.isOfKeptView(found)) throw WholeTable.isView(SqlNames.quoted(Json.of(names)));
    if (relation == null) return null;
    Object catalog = relation.catalog().isEmpty() ? null : relation.catalog().get();
    boolean isOwn = catalog instanceof NamespaceCatalog;
    Identifier id = isOwn ? (Identifier) relation.identifier().get() : null;
    Place place = isOwn ? new Place((NamespaceCatalog) catalog, "id", Json.names(id), id, null) : at(SearchFunction.options(relation), names, entry(relation));
    place.named = relation;
    return place;
  }

  /** Whether a name is one in a catalog of lance tables; no name: whether that is the current catalog. A temporary view is in none. */
  static boolean isInLanceCatalog(List names) {
    if (names.isEmpty()) return SessionCatalogs.active().currentCatalog() instanceof OfLanceTables;
    if (Session.active().sessionState().catalog().isTempView(CollectionConverters.asScala(names).toSeq())) return false;
    return catalog(names) instanceof OfLanceTables;
  }

  /** The catalog that a name is in; no name: the current one. */
  static CatalogPlugin catalog(List names) {
    SessionCatalogs manager = SessionCatalogs.active();
    return isCatalogNamed(names) ? manager.catalog((String) names.get(0)) : manager.currentCatalog();
  }

  private static boolean isCatalogNamed(List names) { return !names.isEmpty() && SessionCatalogs.active().isCatalogRegistered((String) names.get(0)); }

  /** The id, in its catalog, of a view with a name. */
  static Identifier inCatalog(List names) {
    boolean isAlone = names.size() == 1 && !isCatalogNamed(names);
    String[] namespace = isAlone ? SessionCatalogs.active().currentNamespace() : namespace(names.subList(0, names.size() - 1));
    return Identifier.of(namespace, (String) names.get(names.size() - 1));
  }

  /** The id, in its catalog, of a namespace with a name; no name: the current one. */
  static String[] namespace(List names) {
    if (names.isEmpty()) return SessionCatalogs.active().currentNamespace();
    List id = isCatalogNamed(names) ? names.subList(1, names.size()) : names;
    return (String[]) id.toArray(new String[id.size()]);
  }

  private static final List FORMATS = Arrays.asList(new String[] { "parquet", "orc", "csv", "json", "avro", "text", "xml", "delta", "iceberg" });

  /** Whether names are a format of Spark's and a path, such as parquet.`/path`. */
  static boolean isFileOfOthers(List names) {
    String first = (String) names.get(0), last = (String) names.get(names.size() - 1);
    boolean isFile = names.size() == 2 && last.indexOf('/') >= 0 && FORMATS.contains(first.toLowerCase(Locale.ROOT));
    return isFile && !SessionCatalogs.active().isCatalogRegistered(first);
  }

  /** The table as the target of a write. */
  DataSourceV2Relation relation() {
    if (named != null && named.table() instanceof LanceTable) return named;
    Map options = (Map) new ObjectMapper().convertValue(Json.at(json, "options"), Map.class);
    LanceTable table = LanceTable.reopened(new CaseInsensitiveStringMap(options));
    return DataSourceV2Relation$.MODULE$.create(table, scala.Option.empty(), scala.Option.empty());
  }

  /** This place, seen from the catalog of a table with these names, which is to be made; its id becomes the value `made` of the request. */
  Place making(List names, ObjectNode request) {
    SessionCatalogs manager = SessionCatalogs.active();
    String first = (String) names.get(0);
    boolean isNamed = manager.hasCatalog(names);
    boolean isPath = !isNamed && names.size() == 2 && first.equalsIgnoreCase(Names.FORMAT) && ((String) names.get(1)).indexOf('/') >= 0;
    List id = new ArrayList(isNamed || isPath ? names.subList(1, names.size()) : names);
    if (!isNamed && names.size() == 1) id.addAll(0, Arrays.asList(manager.currentNamespace()));
    request.set("made", Json.names((String[]) id.toArray(new String[id.size()])));
    if (isPath) return this;
    CatalogPlugin named = manager.of(names);
    if (named == catalog) return this;
    if (!(named instanceof NamespaceCatalog) || json.has("id")) {
      throw new IllegalArgumentException("a clone is in the catalog of its table or at a path: write CREATE TABLE lance.`/path` SHALLOW CLONE t");
    }
    return new Place((NamespaceCatalog) named, "options", Json.at(json, "options"), this.id, null);
  }

  private static Identifier entry(DataSourceV2Relation relation) {
    boolean isInSession = !relation.catalog().isEmpty() && ((CatalogPlugin) relation.catalog().get()).name().equals(SessionCatalogs.SESSION);
    return isInSession ? (Identifier) relation.identifier().get() : null;
  }

  private static Place at(Map options, List names, Identifier entry) {
    return new Place(NamespaceCatalog.ofPaths(), "options", Json.texts(options), Identifier.of(new String[0], String.join(".", names)), entry);
  }
}
