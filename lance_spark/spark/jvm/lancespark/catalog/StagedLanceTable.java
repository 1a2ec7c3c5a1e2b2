package lancespark.catalog;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.core.HandOver;
import lancespark.protocol.Json;
import lancespark.protocol.Names;
import lancespark.source.RowsInfo;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWrite;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** A table that a statement creates or replaces. The commit of the query's rows, or else `commitStagedChanges`, makes its one version. */
@SuppressWarnings({"rawtypes", "unchecked", "deprecation"})
class StagedLanceTable implements StagedTable, SupportsWrite {
  private final NamespaceCatalog catalog;
  private final Identifier id;
  private final ObjectNode definition;
  private final boolean replaces, declared;
  private boolean isWritten = false;

  /** `declared`: the namespace has the id for this statement, which must remove it if it fails. */
  StagedLanceTable(NamespaceCatalog catalog, Identifier id, ObjectNode definition, boolean replaces, boolean declared) {
    this.catalog = catalog;
    this.id = id;
    this.definition = definition;
    this.replaces = replaces;
    this.declared = declared;
  }

  public String name() { return catalog.name() + "." + id; }
  public StructType schema() { return (StructType) DataType.fromJson(Json.at(definition, "schema").asText()); }
  public Set capabilities() { return EnumSet.of(TableCapability.BATCH_WRITE, TableCapability.TRUNCATE, TableCapability.ACCEPT_ANY_SCHEMA); }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    isWritten = true;
    ObjectNode arguments = definition.deepCopy();
    arguments.set("id", Json.names(id));
    arguments.set("options", Json.texts(info.options().asCaseSensitiveMap()));
    arguments.put("replaces", replaces);
    LogicalWriteInfo request = new RowsInfo(catalog.python.options("write", arguments), info.schema(), info.queryId());
    return new StagedWrite(HandOver.ofWrites().measured(new PythonWrite(CatalogPython.unopened(), Names.CATALOG_FORMAT, request, replaces)));
  }

  public void commitStagedChanges() {
    if (!isWritten && replaces) {
      catalog.python.ask("replace", definition.deepCopy(), id);
    } else if (!isWritten) {
      catalog.python.ask("create", definition.deepCopy(), id);
    } else if (!replaces) {
      ObjectNode arguments = Json.object();
      arguments.set("properties", Json.at(definition, "properties"));
      catalog.python.ask("finish", arguments, id);
    }
  }

  public void abortStagedChanges() {
    if (declared) catalog.python.ask("abandon", Json.object().put("declared", true), id);
  }
}
