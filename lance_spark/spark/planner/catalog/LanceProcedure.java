package lancespark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation$;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.types.*;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;
import scala.jdk.javaapi.CollectionConverters;

/** A procedure in the namespace `system` of a LanceCatalog. lance_spark.spark.catalog.procedures has their signatures and their code. */
class LanceProcedure implements UnboundProcedure, BoundProcedure {
  static final String SYSTEM = "system";
  private static JsonNode signatures = null;
  private final LanceCatalog catalog;
  private final String name;
  private final JsonNode signature;
  private final DataType interval;

  /** `interval` is the type of the interval among the arguments, since Spark does not cast one such type to another. */
  private LanceProcedure(LanceCatalog catalog, String name, JsonNode signature, DataType interval) {
    this.catalog = catalog;
    this.name = name;
    this.signature = signature;
    this.interval = interval;
  }

  private static synchronized JsonNode signatures(LanceCatalog catalog) {
    if (signatures == null) signatures = catalog.python.ask("procedures", PlanJson.object(), Identifier.of(new String[0], ""), new String[0]);
    return signatures;
  }

  static LanceProcedure named(LanceCatalog catalog, Identifier id) {
    JsonNode all = signatures(catalog);
    String name = id.name().toLowerCase(Locale.ROOT);
    boolean isOfSystem = id.namespace().length == 1 && id.namespace()[0].equalsIgnoreCase(SYSTEM);
    if (!isOfSystem || !all.has(name)) {
      throw new UnknownProcedure("there is no procedure " + id + "; there are " + String.join(", ", names(all)) + " in " + catalog.name() + "." + SYSTEM);
    }
    return new LanceProcedure(catalog, name, CatalogPython.at(all, name), DayTimeIntervalType.apply());
  }

  static Identifier[] all(LanceCatalog catalog) {
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

  /** Procedures after which a table has other rows. */
  private static final List CHANGING =
      Arrays.asList(new String[] { "restore", "rollback_to_snapshot", "rollback_to_timestamp", "set_current_snapshot", "merge_mem_wal" });

  public String name() { return name; }
  public String description() { return "the procedure " + name + " for lance tables"; }

  public BoundProcedure bind(StructType input) {
    StructField[] given = input.fields();
    for (int i = 0; i < given.length; i++) {
      if (given[i].dataType() instanceof DayTimeIntervalType) return new LanceProcedure(catalog, name, signature, given[i].dataType());
    }
    return this;
  }

  public boolean isDeterministic() { return false; }

  public ProcedureParameter[] parameters() {
    JsonNode given = CatalogPython.at(signature, "parameters");
    ProcedureParameter[] all = new ProcedureParameter[given.size()];
    for (int i = 0; i < all.length; i++) {
      DataType type = DataType.fromDDL(CatalogPython.at(CatalogPython.at(given, i), 1).asText());
      ProcedureParameter.Builder builder =
          ProcedureParameter.in(CatalogPython.at(CatalogPython.at(given, i), 0).asText(), type instanceof DayTimeIntervalType ? interval : type);
      if (i >= CatalogPython.at(signature, "required").asInt()) builder.defaultValue("NULL");
      all[i] = builder.build();
    }
    return all;
  }

  public Iterator call(InternalRow input) {
    ProcedureParameter[] parameters = parameters();
    ObjectNode values = PlanJson.object();
    for (int i = 1; i < parameters.length; i++) values.set(parameters[i].name(), Values.json(input, i, parameters[i].dataType()));
    if (input.isNullAt(0)) throw new IllegalArgumentException("the argument table is null, expected the name or path of a table");
    String table = input.getUTF8String(0).toString();
    Identifier entry = entry(table);
    ObjectNode place = entry == null ? place(table) : inSession(entry);
    return Collections.singletonList(new Rows(columns(), rows(place, values, entry == null ? nameOf(place) : nameOf(entry)))).iterator();
  }

  StructType columns() { return StructType.fromDDL(CatalogPython.at(signature, "columns").asText()); }

  /**
   * The rows that the procedure returns for a table at a place, with these arguments. If it changes rows, those that Spark has cached of the table
   * with this name (null: it has none) are read anew.
   */
  JsonNode rows(ObjectNode place, ObjectNode values, String table) {
    JsonNode rows = called(place, values);
    if (table == null || !CHANGING.contains(name)) return rows;
    try {
      org.apache.spark.sql.classic.SparkSession session = LancePlanner.session();
      if (!session.sharedState().cacheManager().isEmpty()) session.catalog().refreshTable(table);
    } catch (Exception e) {
      LancePlanner.LOG.warn("the change of " + table + " is there, but rows that Spark has cached may not show it", e);
    }
    return rows;
  }

  /** The name of the table at a place in this catalog, as in SQL; null for a path. */
  String nameOf(ObjectNode place) {
    JsonNode names = CatalogPython.at(place, "id");
    boolean isPath = names == null || names.size() == 1 && CatalogPython.at(names, 0).asText().indexOf('/') >= 0;
    if (isPath) return null;
    StringBuilder table = new StringBuilder(quoted(catalog.name()));
    for (int i = 0; i < names.size(); i++) table.append('.').append(quoted(CatalogPython.at(names, i).asText()));
    return table.toString();
  }

  /** The name of a table of the session catalog, as in SQL. */
  static String nameOf(Identifier id) { return quoted("spark_catalog") + "." + quoted(id.namespace()[0]) + "." + quoted(id.name()); }

  private static String quoted(String name) { return "`" + name.replace("`", "``") + "`"; }

  private JsonNode called(ObjectNode place, ObjectNode values) {
    ObjectNode request = PlanJson.object().put("name", name);
    request.set("place", place);
    request.set("arguments", values);
    JsonNode rows = ask(request);
    int stages = CatalogPython.at(signature, "stages").asInt();
    if (stages == 0) return rows;
    ObjectNode job = PlanJson.object().put("version", rows.asLong());
    ArrayNode done = PlanJson.array();
    for (int i = 0; i < stages; i++) done.add(results((ObjectNode) request.deepCopy().put("version", rows.asLong()).set("results", done.deepCopy())));
    job.set("results", done);
    return ask((ObjectNode) request.set("job", job));
  }

  private JsonNode ask(ObjectNode request) {
    Identifier id = Identifier.of(new String[0], CatalogPython.at(request, "place").toString());
    JsonNode names = CatalogPython.at(CatalogPython.at(request, "place"), "id");
    if (names != null) {
      String[] namespace = new String[names.size() - 1];
      for (int i = 0; i < namespace.length; i++) namespace[i] = CatalogPython.at(names, i).asText();
      id = Identifier.of(namespace, CatalogPython.at(names, namespace.length).asText());
    }
    return catalog.python.ask("call", request.deepCopy(), id, id.namespace());
  }

  /** The results of the tasks on the executors, in base64. */
  private ArrayNode results(ObjectNode arguments) {
    try {
      StructType schema = new StructType().add("result", DataTypes.BinaryType, false);
      CaseInsensitiveStringMap options = catalog.python.options("tasks", arguments);
      PythonDataSourceV2 source = CatalogPython.unopened();
      source.getOrCreateDataSourceInPython(CatalogPython.SOURCE, options, (scala.Option) scala.Option.empty());
      PythonTable table = new PythonTable(source, CatalogPython.SOURCE, schema);
      LogicalPlan relation = DataSourceV2Relation$.MODULE$.create(table, (scala.Option) scala.Option.empty(), (scala.Option) scala.Option.empty());
      List rows = org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows(LancePlanner.session(), relation).collectAsList();
      ArrayNode results = PlanJson.array();
      for (int i = 0; i < rows.size(); i++) results.add(Base64.getEncoder().encodeToString((byte[]) ((Row) rows.get(i)).get(0)));
      return results;
    } catch (Throwable t) {
      Platform.throwException(t);
      return null;
    }
  }

  /** A table by its path, or by its name as in SQL in this catalog. */
  private ObjectNode place(String table) {
    ObjectNode place = PlanJson.object();
    if (isPath(table)) return (ObjectNode) place.set("id", PlanJson.array().add(table));
    List parts = parts(table);
    CatalogManager manager = LancePlanner.session().sessionState().catalogManager();
    boolean isCurrent = manager.currentCatalog().name().equals(catalog.name());
    if (parts.size() > 1 && parts.get(0).equals(catalog.name())) parts.remove(0);
    else if (parts.size() == 1 && isCurrent && ((String) parts.get(0)).indexOf('/') < 0) parts.addAll(0, Arrays.asList(manager.currentNamespace()));
    return (ObjectNode) place.set("id", CatalogPython.names((String[]) parts.toArray(new String[parts.size()])));
  }

  /** The entry in the session catalog of a table that is named after `spark_catalog`; null for other tables. */
  private static Identifier entry(String table) {
    List parts = isPath(table) ? Collections.emptyList() : parts(table);
    if (parts.size() < 2 || !parts.get(0).equals("spark_catalog")) return null;
    String database = parts.size() == 2 ? "default" : (String) parts.get(1);
    return Identifier.of(new String[] { database }, (String) parts.get(parts.size() - 1));
  }

  private static ObjectNode inSession(Identifier entry) {
    try {
      return (ObjectNode) PlanJson.object().set("options", CatalogPython.texts(SessionEntry.options(SessionEntry.of(entry))));
    } catch (Exception e) {
      Platform.throwException(e);
      return null;
    }
  }

  private static boolean isPath(String table) { return table.indexOf('/') >= 0 && table.indexOf('`') < 0; }

  private static List parts(String table) {
    try {
      return new ArrayList(CollectionConverters.asJava((scala.collection.Seq) LancePlanner.session().sessionState().sqlParser().parseMultipartIdentifier(table)));
    } catch (Exception e) {
      Platform.throwException(e);
      return null;
    }
  }
}

/** Values of Spark as JSON, and back. */
class Values {
  static JsonNode json(InternalRow row, int i, DataType type) {
    ArrayNode one = PlanJson.array();
    if (row.isNullAt(i)) one.addNull();
    else if (type instanceof StringType) one.add(row.getUTF8String(i).toString());
    else if (type instanceof BooleanType) one.add(row.getBoolean(i));
    else if (type instanceof DoubleType) one.add(row.getDouble(i));
    else if (type instanceof ArrayType) one.add(elements(row.getArray(i), ((ArrayType) type).elementType()));
    else if (type instanceof MapType) one.add(entries(row.getMap(i)));
    else one.add(row.getLong(i));  // long, timestamp, interval
    return CatalogPython.at(one, 0);
  }

  private static ObjectNode entries(MapData map) {
    ObjectNode all = PlanJson.object();
    for (int i = 0; i < map.numElements(); i++) {
      all.put(map.keyArray().getUTF8String(i).toString(), map.valueArray().isNullAt(i) ? null : map.valueArray().getUTF8String(i).toString());
    }
    return all;
  }

  private static ArrayNode elements(ArrayData array, DataType type) {
    ArrayNode all = PlanJson.array();
    for (int i = 0; i < array.numElements(); i++) {
      if (array.isNullAt(i)) all.addNull();
      else if (type instanceof StringType) all.add(array.getUTF8String(i).toString());
      else if (type instanceof DoubleType) all.add(array.getDouble(i));
      else if (type instanceof ArrayType) all.add(elements(array.getArray(i), ((ArrayType) type).elementType()));
      else all.add(array.getLong(i));
    }
    return all;
  }

  static Object spark(JsonNode value, DataType type) {
    if (value.isNull()) return null;
    if (type instanceof StringType) return UTF8String.fromString(value.asText());
    if (type instanceof BooleanType) return Boolean.valueOf(value.asBoolean());
    if (type instanceof IntegerType) return Integer.valueOf(value.asInt());
    if (type instanceof ArrayType) return array(value.elements(), ((ArrayType) type).elementType(), value.size());
    if (type instanceof MapType) {
      List keys = new ArrayList();
      Iterator it = value.fieldNames();
      while (it.hasNext()) keys.add(UTF8String.fromString((String) it.next()));
      return new ArrayBasedMapData(new GenericArrayData(keys.toArray()), array(value.elements(), ((MapType) type).valueType(), value.size()));
    }
    return Long.valueOf(value.asLong());
  }

  private static GenericArrayData array(Iterator elements, DataType type, int size) {
    Object[] all = new Object[size];
    for (int i = 0; i < size; i++) all[i] = spark((JsonNode) elements.next(), type);
    return new GenericArrayData(all);
  }
}

/** The rows that a procedure returns. */
class Rows implements LocalScan {
  private final StructType schema;
  private final JsonNode rows;

  Rows(StructType schema, JsonNode rows) {
    this.schema = schema;
    this.rows = rows;
  }

  public StructType readSchema() { return schema; }

  public InternalRow[] rows() {
    InternalRow[] all = new InternalRow[rows.size()];
    for (int i = 0; i < all.length; i++) {
      Object[] values = new Object[schema.length()];
      for (int k = 0; k < values.length; k++) values[k] = Values.spark(CatalogPython.at(CatalogPython.at(rows, i), k), schema.fields()[k].dataType());
      all[i] = new GenericInternalRow(values);
    }
    return all;
  }
}

/** Spark shows the message of an error only if it has an error class; otherwise it says that the routine cannot be loaded. */
class UnknownProcedure extends IllegalArgumentException implements SparkThrowable {
  UnknownProcedure(String message) { super("[ROUTINE_NOT_FOUND] " + message + " SQLSTATE: 42883"); }

  public String getCondition() { return "ROUTINE_NOT_FOUND"; }
  public String getErrorClass() { return getCondition(); }
  public String getSqlState() { return "42883"; }
}
