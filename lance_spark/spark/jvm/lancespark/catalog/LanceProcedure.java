package lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.core.Session;
import lancespark.core.SessionCatalogs;
import lancespark.core.SqlNames;
import lancespark.protocol.Json;
import lancespark.source.SessionEntry;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.types.*;
import org.apache.spark.unsafe.Platform;

/** A procedure in the namespace `system` of a NamespaceCatalog. lance_spark.actions has their signatures and their code. */
@SuppressWarnings({"rawtypes", "unchecked"})
public class LanceProcedure implements UnboundProcedure, BoundProcedure {
  public static final String SYSTEM = "system";
  private static JsonNode signatures = null;
  private final NamespaceCatalog catalog;
  private final String name;
  private final JsonNode signature;
  private final DataType interval;

  /** `interval` is the type of the interval among the arguments, since Spark does not cast one such type to another. */
  private LanceProcedure(NamespaceCatalog catalog, String name, JsonNode signature, DataType interval) {
    this.catalog = catalog;
    this.name = name;
    this.signature = signature;
    this.interval = interval;
  }

  private static synchronized JsonNode signatures(NamespaceCatalog catalog) {
    if (signatures == null) signatures = catalog.python.ask("procedures", Json.object(), Identifier.of(new String[0], ""), new String[0]);
    return signatures;
  }

  public static LanceProcedure named(NamespaceCatalog catalog, Identifier id) {
    try {
      Session.active();
    } catch (UnsupportedOperationException e) {
      throw new StoppedSession(e.getMessage());
    }
    JsonNode all = signatures(catalog);
    String name = id.name().toLowerCase(Locale.ROOT);
    boolean isOfSystem = id.namespace().length == 1 && id.namespace()[0].equalsIgnoreCase(SYSTEM);
    if (!isOfSystem || !all.has(name)) {
      throw new UnknownProcedure("there is no procedure " + id + "; there are " + String.join(", ", names(all)) + " in " + catalog.name() + "." + SYSTEM);
    }
    return new LanceProcedure(catalog, name, Json.at(all, name), DayTimeIntervalType.apply());
  }

  static Identifier[] all(NamespaceCatalog catalog) {
    String[] names = names(signatures(catalog));
    Identifier[] all = new Identifier[names.length];
    for (int i = 0; i < all.length; i++) all[i] = Identifier.of(new String[] { SYSTEM }, names[i]);
    return all;
  }

  private static String[] names(JsonNode signatures) {
    List names = new ArrayList();
    Iterator it = signatures.fieldNames();
    while (it.hasNext()) names.add(it.next());
    return (String[]) names.toArray(new String[names.size()]);
  }

  /** Whether a table may have other rows after the procedure. */
  private boolean changesRows() {
    String effect = Json.at(signature, "effect").asText();
    return effect.equals("rows") || effect.equals("columns");
  }

  public String name() { return name; }
  public String description() { return Json.at(signature, "help").asText(); }

  public BoundProcedure bind(StructType input) {
    StructField[] given = input.fields();
    for (int i = 0; i < given.length; i++) {
      if (given[i].dataType() instanceof DayTimeIntervalType) return new LanceProcedure(catalog, name, signature, given[i].dataType());
    }
    return this;
  }

  public boolean isDeterministic() { return false; }

  public ProcedureParameter[] parameters() {
    JsonNode given = Json.at(signature, "parameters");
    ProcedureParameter[] all = new ProcedureParameter[given.size()];
    for (int i = 0; i < all.length; i++) {
      DataType type = DataType.fromDDL(Json.at(Json.at(given, i), 1).asText());
      ProcedureParameter.Builder builder =
          ProcedureParameter.in(Json.at(Json.at(given, i), 0).asText(), type instanceof DayTimeIntervalType ? interval : type);
      builder.comment(Json.at(Json.at(given, i), 2).asText());
      if (i >= Json.at(signature, "required").asInt()) builder.defaultValue("NULL");
      all[i] = builder.build();
    }
    return all;
  }

  public Iterator call(InternalRow input) {
    String instead = Json.at(signature, "instead").asText();
    if (!instead.isEmpty()) throw new UnsupportedOperationException(name + ": " + instead);
    ProcedureParameter[] parameters = parameters();
    ObjectNode values = Json.object();
    for (int i = 1; i < parameters.length; i++) values.set(parameters[i].name(), Values.json(input, i, parameters[i].dataType()));
    if (input.isNullAt(0)) throw new IllegalArgumentException("the argument table is null, expected the name or path of a table");
    String table = input.getUTF8String(0).toString();
    Identifier entry = entry(table);
    ObjectNode place = entry == null ? place(table) : inSession(entry);
    place.put("catalog", catalog.name()).set("called", names(place, entry));
    try {
      return Collections.singletonList(new Rows(columns(), rows(place, values, entry))).iterator();
    } catch (Throwable t) {
      Platform.throwException(t instanceof NoSuchTableException && entry != null ? SessionEntry.hasNoVersion(entry) : t);
      return null;
    }
  }

  public StructType columns() { return StructType.fromDDL(Json.at(signature, "columns").asText()); }

  /**
   * The rows that the procedure returns for a table at a place, with these arguments. If it changes rows, those that Spark has cached of the table
   * are read anew, and its entry in the session catalog (null: it has none) gets the columns that it has now.
   */
  public JsonNode rows(ObjectNode place, ObjectNode values, Identifier entry) {
    JsonNode rows = called(place, values);
    if (!changesRows() || entry == null && isPath(Json.at(place, "id"))) return rows;
    String table = SqlNames.quoted(names(place, entry));
    try {
      if (entry != null) ((TableCatalog) SessionCatalogs.active().v2SessionCatalog()).invalidateTable(entry);
      org.apache.spark.sql.classic.SparkSession session = Session.active();
      if (!session.sharedState().cacheManager().isEmpty()) session.catalog().refreshTable(table);
    } catch (Exception e) {
      Session.LOG.warn("the change of " + table + " is there, but Spark's catalog, and rows that Spark has cached, may not show it", e);
    }
    return rows;
  }

  /** The parts of the name of a table in SQL: the entry of the session catalog, or the place in this catalog or at a path. */
  private ArrayNode names(ObjectNode place, Identifier entry) {
    if (entry != null) return Json.array().add(SessionCatalogs.SESSION).addAll(Json.names(entry));
    ArrayNode id = (ArrayNode) Json.at(place, "id");
    return isPath(id) ? id : Json.array().add(catalog.name()).addAll(id);
  }

  /** Whether the id of a table in a request is its path, or that of a table which has no id. */
  private static boolean isPath(JsonNode id) { return id == null || id.size() == 1 && Json.at(id, 0).asText().indexOf('/') >= 0; }

  private JsonNode called(ObjectNode place, ObjectNode values) {
    return new ProcedureCall(catalog.python, name, place, values).rows();
  }

  /** A table by its path, or by its name as in SQL in this catalog. */
  private ObjectNode place(String table) {
    ObjectNode place = Json.object();
    if (isPath(table)) return (ObjectNode) place.set("id", Json.array().add(table));
    List parts = SqlNames.parts(table);
    SessionCatalogs manager = SessionCatalogs.active();
    boolean isCurrent = manager.currentCatalog().name().equals(catalog.name());
    if (parts.size() > 1 && parts.get(0).equals(catalog.name())) parts.remove(0);
    else if (parts.size() == 1 && isCurrent && ((String) parts.get(0)).indexOf('/') < 0) parts.addAll(0, Arrays.asList(manager.currentNamespace()));
    return (ObjectNode) place.set("id", Json.names((String[]) parts.toArray(new String[parts.size()])));
  }

  /** The entry in the session catalog of a table that is named after `spark_catalog`; null for other tables. */
  private static Identifier entry(String table) {
    List parts = isPath(table) ? Collections.emptyList() : SqlNames.parts(table);
    if (parts.size() < 2 || !parts.get(0).equals(SessionCatalogs.SESSION)) return null;
    String database = parts.size() == 2 ? "default" : (String) parts.get(1);
    return Identifier.of(new String[] { database }, (String) parts.get(parts.size() - 1));
  }

  private static ObjectNode inSession(Identifier entry) {
    CatalogTable table = SessionEntry.of(entry);
    if (SessionEntry.isLance(entry)) return (ObjectNode) Json.object().set("options", Json.texts(SessionEntry.options(table)));
    String name = SessionCatalogs.SESSION + "." + entry;
    throw new UnsupportedOperationException(name + " is no lance table; write CREATE TABLE t USING lance AS SELECT * FROM " + name
        + ", or LanceTable.convert(spark, \"" + name + "\", '/path')");
  }

  private static boolean isPath(String table) { return table.indexOf('/') >= 0 && table.indexOf('`') < 0; }
}
