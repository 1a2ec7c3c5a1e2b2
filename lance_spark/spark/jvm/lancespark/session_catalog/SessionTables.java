package lancespark.session_catalog;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import lancespark.catalog.CatalogInstall;
import lancespark.catalog.Changes;
import lancespark.catalog.NamedTable;
import lancespark.catalog.NamespaceCatalog;
import lancespark.core.Session;
import lancespark.core.SparkInternals;
import lancespark.protocol.Json;
import lancespark.protocol.Names;
import lancespark.source.SessionEntry;
import lancespark.source.Source;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.connector.catalog.CatalogExtension;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.CatalogV2Util$;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's session catalog, whose lance tables are those of a NamespaceCatalog: they are loaded and altered by the same requests, at the places that
 * their entries name. The entries stay Spark's. Tables of other formats are Spark's alone.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
public class SessionTables extends DelegatingCatalogExtension {
  /** A format that has defaults of columns: Spark asks for one, and takes only those that it knows, where columns are in a new place. */
  private static final String TAKES_DEFAULTS = "parquet";

  public SessionTables() {}

  /** Stands between the session and Spark's own catalog, also below a catalog of another extension. Does nothing if one does so already. */
  static void putInto(org.apache.spark.sql.classic.SparkSession session) throws Exception {
    Object manager = session.sessionState().catalogManager();
    synchronized (manager) {
      CatalogPlugin sparks = (CatalogPlugin) CatalogInstall.field(manager.getClass(), "defaultSessionCatalog").get(manager);
      if (sparks instanceof SessionTables) return;
      SessionTables tables = new SessionTables();
      tables.setDelegateCatalog(sparks);
      CatalogInstall.field(manager.getClass(), "defaultSessionCatalog").set(manager, tables);
      scala.Option others = ((scala.collection.mutable.Map) CatalogInstall.field(manager.getClass(), "catalogs").get(manager)).get(tables.name());
      if (!others.isEmpty() && others.get() instanceof CatalogExtension) ((CatalogExtension) others.get()).setDelegateCatalog(tables);
    }
  }

  public Table loadTable(Identifier id) {
    try {
      if (id.namespace().length == 2 && SessionEntry.isLance(tableOf(id))) return about(id);
      Table table = super.loadTable(id);
      return Source.isOf(table) ? loaded(id, Json.object()) : table;
    } catch (NoSuchTableException e) {
      checkNoVersion(id);
      Platform.throwException(e);
      return null;
    } catch (Exception e) {
      Platform.throwException(e);
      return null;
    }
  }

  /** `version` is a number, a tag or a branch. */
  public Table loadTable(Identifier id, String version) {
    try {
      return isLance(id) ? loaded(id, Json.object().put("version", version)) : super.loadTable(id, version);
    } catch (Exception e) {
      Platform.throwException(e);
      return null;
    }
  }

  public Table loadTable(Identifier id, long micros) {
    try {
      return isLance(id) ? loaded(id, NamespaceCatalog.at(micros)) : super.loadTable(id, micros);
    } catch (Exception e) {
      Platform.throwException(e);
      return null;
    }
  }

  private boolean isLance(Identifier id) throws Exception { return Source.isOf(super.loadTable(id)); }

  /** The table that a name such as db.t.files is about. */
  private static Identifier tableOf(Identifier id) { return Identifier.of(new String[] { id.namespace()[0] }, id.namespace()[1]); }

  /** Delta Lake's names for a version of a table, and for what a table was at a time. */
  private static final Pattern VERSION = Pattern.compile("(.+)@v([0-9]+)"), TIME = Pattern.compile("(.+)@([0-9]{4})(..)(..)(..)(..)(..)[0-9]{3}");

  /** Raises UnsupportedOperationException for a name that Delta Lake gives to a lance table at a version or time; there is no table of this name. */
  private static void checkNoVersion(Identifier id) {
    Matcher version = VERSION.matcher(id.name()), time = TIME.matcher(id.name());
    Matcher found = version.matches() ? version : time.matches() ? time : null;
    if (found == null || !SessionEntry.isLance(Identifier.of(id.namespace(), found.group(1)))) return;
    String at = found == version ? " VERSION AS OF " + found.group(2) : " TIMESTAMP AS OF '" + found.group(2) + "-" + found.group(3) + "-" + found.group(4) + " "
        + found.group(5) + ":" + found.group(6) + ":" + found.group(7) + "'";
    throw new UnsupportedOperationException("there is no table " + id + "; write " + found.group(1) + at);
  }

  /** A table about a table, such as db.t.files. */
  private static Table about(Identifier id) throws Exception {
    ObjectNode request = Json.object().put("about", id.name());
    request.set("place", SessionEntry.place(SessionEntry.of(tableOf(id))));
    return NamedTable.inner(NamespaceCatalog.ofPaths().python.ask("load_about", request, id, id.namespace()), "spark_catalog." + id);
  }

  private static Table loaded(Identifier id, ObjectNode request) throws Exception {
    CatalogTable entry = SessionEntry.of(id);
    request.put("declared", entry.schema().json()).set("place", SessionEntry.place(entry));
    return new SessionTable(id, entry, NamespaceCatalog.ofPaths().python.ask("load", request, id, id.namespace()));
  }

  /** Only the entry: the first rows make the table, or it is at the location already. Returns null: Spark loads the table when it needs it. */
  public Table createTable(Identifier id, Column[] columns, Transform[] partitions, Map properties) {
    try {
      String format = (String) properties.get(TableCatalog.PROP_PROVIDER);
      if (format == null) format = Session.setting("spark.sql.sources.default", "");
      if (!Names.FORMAT.equalsIgnoreCase(format)) return super.createTable(id, columns, partitions, properties);
      ObjectNode definition = checked(NamespaceCatalog.definition(columns, partitions, properties));
      Map all = Json.texts(Json.at(definition, "properties"));
      // A new table without columns has those of the table that is at its location.
      if (columns.length == 0) all.put(Names.WRITTEN, "true");
      super.createTable(id, columns, new Transform[0], all);
      return null;
    } catch (Exception e) {
      Platform.throwException(e);
      return null;
    }
  }

  /** Refuses what Spark's catalog would take: properties that look like those of lance tables and are none, and names of columns. */
  static ObjectNode checked(ObjectNode definition) {
    NamespaceCatalog.ofPaths().python.ask("check", definition.deepCopy(), Identifier.of(new String[0], "-"), new String[0]);
    return definition;
  }

  /** Changes the table, and then what its entry has of it. */
  public Table alterTable(Identifier id, TableChange... changes) {
    try {
      if (!isLance(id)) return super.alterTable(id, changes);
      boolean hasVersion = isAltered(id, changes);
      TableChange[] rest = hasVersion ? ofProperties(changes) : declared(id, changes);
      if (rest.length > 0) super.alterTable(id, keepingComment(SessionEntry.of(id), rest));
      if (hasVersion) Entry.settle(id);
      return loadTable(id);
    } catch (Exception e) {
      Platform.throwException(e);
      return null;
    }
  }

  /** False if there is no table yet: until its first rows, Spark's catalog has everything of it. */
  private static boolean isAltered(Identifier id, TableChange[] changes) throws Exception {
    CatalogTable entry = SessionEntry.of(id);
    ObjectNode request = Json.object();
    request.set("place", SessionEntry.place(entry));
    request.set("changes", Changes.json(changes));
    try {
      NamespaceCatalog.ofPaths().python.ask("alter", request, id, id.namespace());
      return true;
    } catch (Throwable t) {
      if (!(t instanceof NoSuchTableException)) Platform.throwException(t);
      SessionEntry.checkNotLost(entry);
      return false;
    }
  }

  /** Spark's catalog takes the comment from the changes, and loses it without one. */
  private static TableChange[] keepingComment(CatalogTable entry, TableChange[] changes) {
    if (entry.comment().isEmpty()) return changes;
    List all = new ArrayList(Arrays.asList(changes));
    all.add(0, TableChange.setProperty(TableCatalog.PROP_COMMENT, (String) entry.comment().get()));
    return (TableChange[]) all.toArray(new TableChange[0]);
  }

  private static TableChange[] ofProperties(TableChange[] changes) {
    List found = new ArrayList();
    for (int i = 0; i < changes.length; i++) {
      if (changes[i] instanceof TableChange.SetProperty || changes[i] instanceof TableChange.RemoveProperty) found.add(changes[i]);
    }
    return (TableChange[]) found.toArray(new TableChange[0]);
  }

  /** Changes the columns of a table without a version, which may have what a new table may have. Returns the other changes. */
  private static TableChange[] declared(Identifier id, TableChange[] changes) throws Exception {
    List ofColumns = new ArrayList(), rest = new ArrayList();
    ObjectNode properties = Json.object();
    for (int i = 0; i < changes.length; i++) {
      TableChange change = changes[i];
      if (change instanceof TableChange.ColumnChange) ofColumns.add(change);
      else rest.add(Changes.ofEntry(change));
      if (change instanceof TableChange.SetProperty) properties.put(((TableChange.SetProperty) change).property(), "");
    }
    ObjectNode definition = Json.object();
    definition.set("properties", properties);
    CatalogTable entry = SessionEntry.of(id);
    if (!ofColumns.isEmpty()) {
      Object[] given = { entry.schema(), CollectionConverters.asScala(ofColumns).toSeq(), new scala.Some(TAKES_DEFAULTS), "ALTER TABLE" };
      StructType schema = (StructType) SparkInternals.made(CatalogV2Util$.MODULE$, "applySchemaChanges", given);
      checked(definition.put("schema", schema.json()));
      Entry.store((CatalogTable) SparkInternals.with(entry, "schema", schema));
    } else {
      checked(definition);
    }
    return (TableChange[]) rest.toArray(new TableChange[0]);
  }

  /** Called when the columns of the table may have changed. */
  public void invalidateTable(Identifier id) {
    try {
      if (isLance(id)) Entry.settle(id);
      super.invalidateTable(id);
    } catch (Exception e) {
      Platform.throwException(e);
    }
  }

  /** For lance_spark.verbs: the table with this full name has new rows and, if `changesColumns`, other columns. Those of other catalogs need nothing. */
  public void noteChange(String name, boolean changesColumns) throws Exception {
    Object parts = Session.active().sessionState().sqlParser().parseMultipartIdentifier(name);
    List names = CollectionConverters.asJava((scala.collection.Seq) parts);
    if (names.size() != 3 || !names.get(0).equals("spark_catalog")) return;
    Identifier id = Identifier.of(new String[] { (String) names.get(1) }, (String) names.get(2));
    if (changesColumns) Entry.settle(id);
    else Entry.note(id);
  }
}
