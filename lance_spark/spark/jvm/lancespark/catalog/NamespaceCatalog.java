package lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.core.Features;
import lancespark.core.OfLanceTables;
import lancespark.core.Session;
import lancespark.core.SqlNames;
import lancespark.protocol.Json;
import lancespark.protocol.Names;
import lancespark.table.WholeTable;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.connector.catalog.*;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A catalog of lance tables in a namespace, `lance.ns.t`, or at paths, `lance.`/path``. It is set up by `lance_spark.catalog`, or by
 * spark.sql.catalog.lance=lancespark.LanceCatalog if the classes are in a jar.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast", "deprecation"})
public class NamespaceCatalog implements StagingTableCatalog, SupportsNamespaces, ProcedureCatalog, FunctionCatalog, OfLanceTables {
  private String name;
  public volatile CatalogPython python;
  /** The names of the tables that were loaded, of which Spark may have cached rows. */
  private final Set used = Collections.synchronizedSet(new HashSet());

  public NamespaceCatalog() {}

  public void initialize(String name, CaseInsensitiveStringMap options) {
    String complaint = Features.complaint("catalog");
    if (!complaint.isEmpty()) throw new UnsupportedOperationException("the catalog " + name + " cannot be used: " + complaint);
    this.name = name;
    this.python = new CatalogPython(options.asCaseSensitiveMap());
  }

  /** A catalog without a namespace, for tables that are named by their options. */
  public static NamespaceCatalog ofPaths() {
    NamespaceCatalog none = new NamespaceCatalog();
    none.initialize(Names.FORMAT, new CaseInsensitiveStringMap(new HashMap()));
    return none;
  }

  public String name() { return name; }

  /** The settings of the catalog, for lance_spark.verbs.target. */
  public Map settings() { return python.settings; }

  /** The id of the session's open transaction in this catalog; null if there is none. */
  public String transaction() { return (String) python.settings.get(Names.TRANSACTION); }

  /** From now on, the tables are those of the transaction with an id; null ends it. Spark drops what it has cached of them. */
  public void enter(String transaction) {
    python = python.in(transaction);
    org.apache.spark.sql.classic.SparkSession session = Session.active();
    if (session.sharedState().cacheManager().isEmpty()) return;
    Object[] names = used.toArray();
    for (int i = 0; i < names.length; i++) {
      try {
        session.catalog().refreshTable((String) names[i]);
      } catch (Throwable t) {
        Session.LOG.warn("rows of " + names[i] + " that Spark has cached may be those before the transaction", t);
      }
    }
  }

  /** BEGIN TRANSACTION, COMMIT or ROLLBACK. */
  public void transaction(String verb) {
    String[] root = new String[0];
    if (verb.equals("BEGIN")) {
      enter(python.ask("begin_transaction", Json.object(), root).asText());
      return;
    }
    try {
      if (verb.equals("COMMIT")) python.ask("commit_transaction", Json.object(), root);
      else python.ask("roll_back_transaction", Json.object(), root);
    } finally {
      enter(null);
    }
  }

  public Set capabilities() {
    return EnumSet.of(TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE, TableCatalogCapability.SUPPORTS_CREATE_TABLE_WITH_GENERATED_COLUMNS,
        TableCatalogCapability.SUPPORTS_CREATE_TABLE_WITH_IDENTITY_COLUMNS);
  }

  public Table loadTable(Identifier id) { return load(id, Json.object()); }

  /** A table to be written. For an entry of its own kind, such as that of a view, Spark would write to its own catalog. */
  public Table loadTable(Identifier id, Set privileges) {
    Table table = loadTable(id);
    if (!(table instanceof V1Table)) return table;
    throw WholeTable.isView(name + "." + id);
  }

  /** `version` is a number or a tag. */
  public Table loadTable(Identifier id, String version) { return load(id, Json.object().put("version", version)); }

  public Table loadTable(Identifier id, long micros) { return load(id, at(micros)); }

  /** A time in a request to load a table. No version is later than the year 9999, which is the last one that Python knows. */
  public static ObjectNode at(long micros) {
    micros = Math.min(micros, 253402300799999999L);
    java.time.Instant instant = java.time.Instant.ofEpochSecond(Math.floorDiv(micros, 1000000L), Math.floorMod(micros, 1000000L) * 1000);
    return Json.object().put("timestamp", instant.toString());
  }

  /** A metadata table such as `t.files` is Spark's own table of a Python source. */
  private Table load(Identifier id, ObjectNode arguments) {
    JsonNode loaded = python.ask("load", placed(id, arguments), id, id.namespace());
    String fullName = name + "." + id;
    used.add(SqlNames.quoted(Json.array().add(name).addAll(Json.names(id))));
    if (loaded.has("view")) return CatalogView.of(name, id, Json.at(loaded, "view"));
    return loaded.has("metadata") ? NamedTable.inner(loaded, fullName) : new NamedTable(fullName, loaded);
  }

  /** False for a table whose files are gone, so that CREATE TABLE can make it again. */
  public boolean tableExists(Identifier id) { return python.ask("exists", Json.object(), id).asBoolean(); }

  /** What DESCRIBE EXTENDED shows besides the properties of a table. */
  public Map details(Identifier id) { return Json.texts(python.ask("details", placed(id, Json.object()), id, id.namespace())); }

  private static ObjectNode placed(Identifier id, ObjectNode request) {
    ObjectNode place = Json.object();
    place.set("id", Json.names(id));
    return (ObjectNode) request.set("place", place);
  }

  public Identifier[] listTables(String[] namespace) {
    JsonNode names = python.ask("list_tables", Json.object(), namespace);
    Identifier[] all = new Identifier[names.size()];
    for (int i = 0; i < all.length; i++) all[i] = Identifier.of(namespace, Json.at(names, i).asText());
    return all;
  }

  /** What a statement says of a new table. */
  public static ObjectNode definition(Column[] columns, Transform[] partitions, Map properties) {
    ObjectNode texts = Json.texts(properties);
    // toTable of a stream says it a second time, as a property.
    texts.remove("__clustering_columns");
    for (int i = 0; i < partitions.length; i++) {
      if (!partitions[i].name().equals("cluster_by")) {
        throw new UnsupportedOperationException("lance tables have no partitions or buckets: leave out PARTITIONED BY and CLUSTERED BY (partitionBy, "
            + "partitionedBy, bucketBy), or use CLUSTER BY (clusterBy). Conditions on any column are pushed into the scan");
      }
      texts.put(Names.CLUSTERING, Changes.clustering(partitions[i].references()));
    }
    ObjectNode definition = Json.object().put("schema", Json.text(Columns.json(columns)));
    definition.set("properties", texts);
    return definition;
  }

  /** Returns null: Spark loads the table when it needs it. */
  public Table createTable(Identifier id, Column[] columns, Transform[] partitions, Map properties) {
    python.ask("create", definition(columns, partitions, properties), id);
    return null;
  }

  public StagedTable stageCreate(Identifier id, Column[] columns, Transform[] partitions, Map properties) {
    ObjectNode definition = definition(columns, partitions, properties);
    ObjectNode arguments = Json.object();
    arguments.set("properties", Json.at(definition, "properties"));
    boolean declared = Json.at(python.ask("stage", arguments, id), "declared").asBoolean();
    return new StagedLanceTable(this, id, definition, false, declared);
  }

  public StagedTable stageReplace(Identifier id, Column[] columns, Transform[] partitions, Map properties) {
    loadTable(id);
    return replacement(id, columns, partitions, properties);
  }

  private StagedTable replacement(Identifier id, Column[] columns, Transform[] partitions, Map properties) {
    return new StagedLanceTable(this, id, definition(columns, partitions, properties), true, false);
  }

  public StagedTable stageCreateOrReplace(Identifier id, Column[] columns, Transform[] partitions, Map properties) {
    return tableExists(id) ? replacement(id, columns, partitions, properties) : stageCreate(id, columns, partitions, properties);
  }

  /** Returns null: Spark loads the table when it needs it. */
  public Table alterTable(Identifier id, TableChange... changes) {
    ObjectNode request = placed(id, Json.object());
    request.set("changes", Changes.json(changes));
    python.ask("alter", request, id, id.namespace());
    return null;
  }

  public boolean dropTable(Identifier id) { return python.ask("drop", Json.object().put("purge", false), id).asBoolean(); }
  public boolean purgeTable(Identifier id) { return python.ask("drop", Json.object().put("purge", true), id).asBoolean(); }

  /** Spark leaves the name of the catalog in the new name. */
  public void renameTable(Identifier id, Identifier to) {
    String[] namespace = to.namespace();
    boolean isFull = namespace.length > 0 && namespace[0].equals(name);
    if (isFull) namespace = (String[]) Arrays.copyOfRange(namespace, 1, namespace.length);
    ObjectNode arguments = Json.object();
    arguments.set("to", Json.names(Identifier.of(namespace, to.name())));
    python.ask("rename", arguments, id);
  }

  public String[][] listNamespaces() { return listNamespaces(new String[0]); }

  public String[][] listNamespaces(String[] namespace) {
    JsonNode names = python.ask("list_namespaces", Json.object(), namespace);
    String[][] all = new String[names.size()][];
    for (int i = 0; i < all.length; i++) {
      all[i] = (String[]) Arrays.copyOf(namespace, namespace.length + 1);
      all[i][namespace.length] = Json.at(names, i).asText();
    }
    return all;
  }

  public Map loadNamespaceMetadata(String[] namespace) { return Json.texts(python.ask("describe_namespace", Json.object(), namespace)); }

  public void createNamespace(String[] namespace, Map metadata) {
    ObjectNode arguments = Json.object();
    Map properties = new HashMap(metadata);
    properties.remove(TableCatalog.PROP_OWNER);
    arguments.set("properties", Json.texts(properties));
    python.ask("create_namespace", arguments, namespace);
  }

  public void alterNamespace(String[] namespace, NamespaceChange... changes) {
    throw new UnsupportedOperationException("the properties of a namespace are set when it is created; lance namespaces cannot change them");
  }

  public boolean dropNamespace(String[] namespace, boolean cascade) {
    python.ask("drop_namespace", Json.object().put("cascade", cascade), namespace);
    return true;
  }

  public UnboundProcedure loadProcedure(Identifier id) { return LanceProcedure.named(this, id); }
  public Identifier[] listProcedures(String[] namespace) { return LanceProcedure.all(this); }

  /** A catalog of lance tables has no functions: those of Iceberg's are refused with what to write instead. */
  public UnboundFunction loadFunction(Identifier id) throws NoSuchFunctionException {
    boolean isOfSystem = id.namespace().length == 1 && id.namespace()[0].equalsIgnoreCase(LanceProcedure.SYSTEM);
    if (!isOfSystem) throw new NoSuchFunctionException(id);
    throw new UnsupportedOperationException("there is no function " + id + ": lance tables have no partition transforms; write functions of Spark, such as "
        + "pmod(hash(id), 16) for bucket(16, id), date_trunc('day', ts) for days(ts), and substring(s, 1, 4) for truncate(4, s)");
  }

  public Identifier[] listFunctions(String[] namespace) { return new Identifier[0]; }
}
