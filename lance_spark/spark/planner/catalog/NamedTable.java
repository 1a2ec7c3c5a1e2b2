package lancespark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.*;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;

/** A table of a LanceCatalog, pinned to the version that was loaded. */
class NamedTable extends LanceTable {
  /** Options with which Spark has loaded the table. */
  private static final List LOADED = Arrays.asList(new String[] { "versionasof", "timestampasof" });
  private final PythonTable inner;
  private final Map properties;

  /** `loaded` is the answer of lance_spark.spark.catalog.tables.load. */
  NamedTable(String name, JsonNode loaded) { this(inner(loaded, LancePlanner.SOURCE), name, CatalogPython.texts(CatalogPython.at(loaded, "options")), loaded); }

  private NamedTable(PythonTable inner, String name, Map options, JsonNode loaded) {
    super(inner, name, options);
    this.inner = inner;
    this.properties = CatalogPython.texts(CatalogPython.at(loaded, "properties"));
  }

  /** Spark's table of the pickled source in an answer of lance_spark.spark.catalog.tables.load. */
  static PythonTable inner(JsonNode loaded, String format) {
    try {
      StructType schema = (StructType) DataType.fromJson(CatalogPython.at(loaded, "schema").asText());
      byte[] pickle = Base64.getDecoder().decode(CatalogPython.at(loaded, "source").asText());
      PythonDataSourceV2 source = Source.unopened();
      SparkInternals.set(source, "dataSourceInPython", new PythonDataSourceCreationResult(pickle, schema));
      return new PythonTable(source, format, schema);
    } catch (Exception e) {
      Platform.throwException(e);
      return null;
    }
  }

  /** The table with more properties. */
  private NamedTable(NamedTable table, Map more) {
    super(table);
    this.inner = table.inner;
    this.properties = new LinkedHashMap(table.properties);
    this.properties.putAll(more);
  }

  Table detailed(CatalogPlugin catalog, Identifier id) { return new NamedTable(this, ((LanceCatalog) catalog).details(id)); }

  public Map properties() { return properties; }

  public Set capabilities() {
    Set capabilities = super.capabilities();
    capabilities.add(TableCapability.OVERWRITE_BY_FILTER);
    capabilities.add(TableCapability.OVERWRITE_DYNAMIC);
    // With this, MERGE WITH SCHEMA EVOLUTION alters the table. Not all versions of Spark have it.
    TableCapability[] all = TableCapability.values();
    for (int i = 0; i < all.length; i++) if (all[i].name().equals("AUTOMATIC_SCHEMA_EVOLUTION")) capabilities.add(all[i]);
    return capabilities;
  }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) { return new OverwriteBuilder(this, info); }

  WriteBuilder plainBuilder(LogicalWriteInfo info) { return super.newWriteBuilder(info); }

  /** A statement with options of its own opens the table again. */
  Source source(CaseInsensitiveStringMap options) {
    Map given = new HashMap();
    Iterator it = options.asCaseSensitiveMap().entrySet().iterator();
    while (it.hasNext()) {
      Map.Entry option = (Map.Entry) it.next();
      if (!LOADED.contains(((String) option.getKey()).toLowerCase(Locale.ROOT))) given.put(option.getKey(), option.getValue());
    }
    CaseInsensitiveStringMap all = super.source(new CaseInsensitiveStringMap(given)).options;
    return new Source(given.isEmpty() ? inner : new PythonTable(Source.unopened(), LancePlanner.SOURCE, schema()), all, false);
  }
}

/** A write that may replace all rows, or those that fulfil conditions. */
class OverwriteBuilder implements SupportsOverwriteV2, SupportsDynamicOverwrite {
  /** Python takes the conditions from this option. See lance_spark.spark.source. */
  private static final String OPTION = "__lance_overwrite";
  /** The option of a write whose value `false` keeps the columns, with all that is declared about them. */
  private static final String KEEPS_COLUMNS = "overwriteSchema";
  /** The option that replaces only the partitions that have new rows, which a namespace may have and a table has not. */
  private static final String DYNAMIC = "partitionOverwriteMode";
  private final NamedTable table;
  private final LogicalWriteInfo info;
  private Predicate[] conditions = null;
  private boolean isTruncating = false, isDynamic = false;

  OverwriteBuilder(NamedTable table, LogicalWriteInfo info) {
    this.table = table;
    this.info = info;
  }

  public WriteBuilder truncate() {
    isTruncating = true;
    return this;
  }

  public WriteBuilder overwriteDynamicPartitions() {
    isDynamic = true;
    return truncate();
  }

  public boolean canOverwrite(Predicate[] predicates) { return json(predicates) != null; }

  public WriteBuilder overwrite(Predicate[] predicates) {
    conditions = predicates;
    return this;
  }

  public Write build() {
    if (conditions == null && !isTruncating) return table.plainBuilder(info).build();
    Map options = new HashMap(info.options().asCaseSensitiveMap());
    if (conditions != null) options.put(OPTION, PlanJson.text(json(conditions)));
    else if (isDynamic) options.put(DYNAMIC, "dynamic");
    // INSERT OVERWRITE replaces rows. The statements that replace columns, too, do not come here.
    else if (!info.options().containsKey(KEEPS_COLUMNS)) options.put(KEEPS_COLUMNS, "false");
    WriteBuilder builder = table.plainBuilder(new RowsInfo(new CaseInsensitiveStringMap(options), info.schema(), info.queryId()));
    return (conditions == null ? ((SupportsTruncate) builder).truncate() : builder).build();
  }

  /** The conditions, which must all hold; null if Python cannot decide one of them exactly. */
  private ArrayNode json(Predicate[] predicates) {
    ArrayNode all = PlanJson.array();
    for (int i = 0; i < predicates.length; i++) {
      PlanJson json = new PlanJson(table.schema());
      JsonNode condition = json.expression(predicates[i]);
      if (condition == null || !json.isExact) return null;
      all.add(condition);
    }
    return all;
  }
}
