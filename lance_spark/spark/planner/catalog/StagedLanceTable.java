package lancespark;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWrite;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/** A table that a statement creates or replaces. The commit of the query's rows, or else `commitStagedChanges`, makes its one version. */
class StagedLanceTable implements StagedTable, SupportsWrite {
  private final LanceCatalog catalog;
  private final Identifier id;
  private final ObjectNode definition;
  private final boolean replaces, declared;
  private boolean isWritten = false;

  /** `declared`: the namespace has the id for this statement, which must remove it if it fails. */
  StagedLanceTable(LanceCatalog catalog, Identifier id, ObjectNode definition, boolean replaces, boolean declared) {
    this.catalog = catalog;
    this.id = id;
    this.definition = definition;
    this.replaces = replaces;
    this.declared = declared;
  }

  public String name() { return catalog.name() + "." + id; }
  public StructType schema() { return (StructType) DataType.fromJson(CatalogPython.at(definition, "schema").asText()); }
  public Set capabilities() { return EnumSet.of(TableCapability.BATCH_WRITE, TableCapability.TRUNCATE, TableCapability.ACCEPT_ANY_SCHEMA); }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    isWritten = true;
    ObjectNode arguments = definition.deepCopy();
    arguments.set("id", CatalogPython.names(id));
    arguments.set("options", CatalogPython.texts(info.options().asCaseSensitiveMap()));
    arguments.put("replaces", replaces);
    try {
      LogicalWriteInfo request = new RowsInfo(catalog.python.options("write", arguments), info.schema(), info.queryId());
      return new StagedWrite(HandOver.ofWrites().measured(new PythonWrite(CatalogPython.unopened(), CatalogPython.SOURCE, request, replaces)));
    } catch (Exception e) {
      Platform.throwException(e);
      return null;
    }
  }

  public void commitStagedChanges() {
    if (!isWritten && replaces) {
      catalog.python.ask("replace", definition.deepCopy(), id);
    } else if (!isWritten) {
      catalog.python.ask("create", definition.deepCopy(), id);
    } else if (!replaces) {
      ObjectNode arguments = PlanJson.object();
      arguments.set("properties", CatalogPython.at(definition, "properties"));
      catalog.python.ask("finish", arguments, id);
    }
  }

  public void abortStagedChanges() {
    if (declared) catalog.python.ask("abandon", PlanJson.object().put("declared", true), id);
  }
}

/** The write of the query's rows. */
class StagedWrite implements WriteBuilder, SupportsTruncate {
  private final Write write;

  StagedWrite(Write write) { this.write = write; }

  public WriteBuilder truncate() { return this; }
  public Write build() { return write; }
}
