package lancespark.alteration;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.catalog.Changes;
import lancespark.catalog.NamespaceCatalog;
import lancespark.core.EntryCatalog;
import lancespark.core.Session;
import lancespark.core.SparkInternals;
import lancespark.protocol.Json;
import lancespark.session_catalog.Entry;
import lancespark.source.SessionEntry;
import lancespark.source.Source;
import lancespark.table.SessionTable;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.connector.catalog.CatalogV2Util$;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;
import scala.jdk.javaapi.CollectionConverters;

/** The session catalog for an ALTER TABLE of a lance table: it changes the table, and then the columns that Spark's catalog has of it. */
public class AlteringCatalog extends EntryCatalog {
  /** A format that has defaults of columns: Spark asks for one, and takes only those that it knows, where columns are in a new place. */
  private static final String TAKES_DEFAULTS = "parquet";

  public AlteringCatalog() {}

  public void check(Map properties, StructType columns) {
    ObjectNode request = Json.object();
    if (columns != null) request.put("schema", columns.json());
    request.set("properties", Json.texts(properties));
    JsonNode refusal = NamespaceCatalog.ofPaths().python.ask("check", request, Identifier.of(new String[0], "-"), new String[0]);
    if (!refusal.isNull()) throw new UnsupportedOperationException(refusal.asText());
  }

  public Table alterTable(Identifier id, TableChange... changes) {
    try {
      Map options = SessionEntry.options(SessionEntry.of(id));
      ObjectNode place = Json.object(), request = Json.object();
      place.set("options", Json.texts(options));
      request.set("place", place);
      request.set("changes", Changes.json(changes));
      if (!isAltered(request, id)) return declared(id, changes);
      refresh(id, changes);
      return loadTable(id);
    } catch (Exception e) {
      Platform.throwException(e);
      return null;
    }
  }

  /** The table without a version after the changes, of which only Spark's catalog knows. It may have what a new table may have. */
  private Table declared(Identifier id, TableChange[] changes) throws Exception {
    for (int i = 0; i < changes.length; i++) if (!(changes[i] instanceof TableChange.ColumnChange)) return super.alterTable(id, changes);
    CatalogTable entry = SessionEntry.of(id);
    Object all = CollectionConverters.asScala(Arrays.asList(changes)).toSeq();
    Object[] given = { entry.schema(), all, new scala.Some(TAKES_DEFAULTS), "ALTER TABLE" };
    StructType schema = (StructType) SparkInternals.made(CatalogV2Util$.MODULE$, "applySchemaChanges", given);
    check(Collections.EMPTY_MAP, schema);
    Entry.store((CatalogTable) SparkInternals.with(entry, "schema", schema));
    return loadTable(id);
  }

  /** False if there is no table yet: until its first rows, Spark's catalog has everything of it. */
  private static boolean isAltered(ObjectNode request, Identifier id) throws Exception {
    try {
      NamespaceCatalog.ofPaths().python.ask("alter", request, id, id.namespace());
      return true;
    } catch (Throwable t) {
      if (!(t instanceof NoSuchTableException)) Platform.throwException(t);
      SessionEntry.checkNotLost(SessionEntry.of(id));
      return false;
    }
  }

  /** The table as the target of a write that may add columns, see EarlyNames. */
  public Table loadTable(Identifier id) {
    try {
      return new SessionTable(super.loadTable(id), id);
    } catch (Throwable t) {
      Platform.throwException(t);
      return null;
    }
  }

  public Table loadTable(Identifier id, Set writePrivileges) { return loadTable(id); }

  /** Called when the columns of the table may have changed. */
  public void invalidateTable(Identifier id) {
    try {
      refresh(id, new TableChange[0]);
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
    if (changesColumns) refresh(id, new TableChange[0]);
    else Entry.note(id);
  }

  /** Only the table says what a change of a column of its has made. */
  private static void forgetOld(Map before, TableChange.ColumnChange change) {
    StructField old = change.fieldNames().length == 1 ? (StructField) before.get(change.fieldNames()[0]) : null;
    if (old == null) return;
    Metadata rest = SessionEntry.without(old.metadata(), change).build();
    before.put(old.name(), new StructField(old.name(), old.dataType(), old.nullable(), rest));
  }

  /** Gives the entry of a table that has a version the columns that the table has now. Comments and defaults that only the entry has stay. */
  private static void refresh(Identifier id, TableChange[] changes) throws Exception {
    CatalogTable entry = SessionEntry.of(id);
    Map before = new HashMap();
    for (int i = 0; i < entry.schema().length(); i++) before.put(entry.schema().fields()[i].name(), entry.schema().fields()[i]);
    for (int i = 0; i < changes.length; i++) {
      if (changes[i] instanceof TableChange.ColumnChange) forgetOld(before, (TableChange.ColumnChange) changes[i]);
      if (!(changes[i] instanceof TableChange.RenameColumn)) continue;
      String[] path = ((TableChange.RenameColumn) changes[i]).fieldNames();
      if (path.length == 1) before.put(((TableChange.RenameColumn) changes[i]).newName(), before.remove(path[0]));
    }
    StructField[] fields = Source.unopened().inferSchema(new CaseInsensitiveStringMap(SessionEntry.options(entry))).fields();
    for (int i = 0; i < fields.length; i++) {
      StructField old = (StructField) before.get(fields[i].name());
      if (old == null) continue;
      MetadataBuilder metadata = new MetadataBuilder().withMetadata(old.metadata()).withMetadata(fields[i].metadata());
      fields[i] = new StructField(fields[i].name(), fields[i].dataType(), fields[i].nullable(), metadata.build());
    }
    StructType schema = new StructType(fields);
    if (schema.equals(entry.schema())) Entry.note(id);
    else Entry.store((CatalogTable) SparkInternals.with(Entry.written(entry), "schema", schema));
  }
}
