package lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.*;
import lancespark.core.SparkInternals;
import lancespark.protocol.Json;
import lancespark.protocol.Names;
import lancespark.source.Source;
import lancespark.table.LanceTable;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;

/** A table of a NamespaceCatalog, pinned to the version that was loaded. */
@SuppressWarnings({"rawtypes", "unchecked"})
public class NamedTable extends LanceTable {
  /** Options with which Spark has loaded the table. */
  private static final List LOADED = Arrays.asList(Names.LOADED_OPTIONS.toLowerCase(Locale.ROOT).split(" "));
  private final PythonTable inner;
  private final Map properties;
  private final Transform[] clustering;

  /** `loaded` is the answer of lance_spark.spark.catalog.tables.load. */
  NamedTable(String name, JsonNode loaded) { this(name, loaded, Collections.EMPTY_MAP); }

  /** A table whose entry in a catalog has more properties. */
  protected NamedTable(String name, JsonNode loaded, Map ofEntry) {
    this(inner(loaded, Names.FORMAT), name, Json.texts(Json.at(loaded, "options")), ofEntry, Changes.clusters(Json.at(loaded, "clusters")));
    this.properties.putAll(Json.texts(Json.at(loaded, "properties")));
  }

  private NamedTable(PythonTable inner, String name, Map options, Map properties, Transform[] clustering) {
    super(inner, name, options);
    this.inner = inner;
    this.clustering = clustering;
    this.properties = new LinkedHashMap(properties);
  }

  /** Spark's table of the pickled source in an answer of lance_spark.spark.catalog.tables.load. */
  public static PythonTable inner(JsonNode loaded, String name) {
    try {
      StructType schema = (StructType) DataType.fromJson(Json.at(loaded, "schema").asText());
      byte[] pickle = Base64.getDecoder().decode(Json.at(loaded, "source").asText());
      PythonDataSourceV2 source = Source.unopened();
      SparkInternals.set(source, "dataSourceInPython", new PythonDataSourceCreationResult(pickle, schema));
      return new PythonTable(source, name, schema);
    } catch (Exception e) {
      Platform.throwException(e);
      return null;
    }
  }

  /** The table with more properties, and this clustering. */
  private NamedTable(NamedTable table, Map more, Transform[] clustering) {
    super(table);
    this.inner = table.inner;
    this.clustering = clustering;
    this.properties = new LinkedHashMap(table.properties);
    this.properties.putAll(more);
  }

  public Table detailed(CatalogPlugin catalog, Identifier id) throws Exception { return new NamedTable(this, details(catalog, id), clustering); }

  /** The table for SHOW CREATE TABLE: Spark writes PARTITIONED BY for any clustering, which is among the properties, too. */
  public Table unclustered() { return new NamedTable(this, Collections.EMPTY_MAP, new Transform[0]); }

  protected Map details(CatalogPlugin catalog, Identifier id) throws Exception { return ((NamespaceCatalog) catalog).details(id); }

  public Map<String, String> properties() { return properties; }

  /** CLUSTER BY: Spark compares it with that of a writer that appends, and with that of a pipeline. */
  public Transform[] partitioning() { return clustering; }

  public Set capabilities() {
    Set capabilities = super.capabilities();
    capabilities.add(TableCapability.OVERWRITE_BY_FILTER);
    capabilities.add(TableCapability.OVERWRITE_DYNAMIC);
    addEvolution(capabilities);
    return capabilities;
  }

  /** A statement with options of its own opens the table again. */
  public Source source(CaseInsensitiveStringMap options) {
    Map given = new HashMap();
    for (Map.Entry option : options.asCaseSensitiveMap().entrySet()) {
      if (!LOADED.contains(((String) option.getKey()).toLowerCase(Locale.ROOT))) given.put(option.getKey(), option.getValue());
    }
    CaseInsensitiveStringMap all = super.source(new CaseInsensitiveStringMap(given)).options;
    return new Source(given.isEmpty() ? inner : new PythonTable(Source.unopened(), Names.FORMAT, schema()), all);
  }
}
