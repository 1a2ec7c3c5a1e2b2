package lancespark.session_catalog;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.catalog.NamespaceCatalog;
import lancespark.core.ReplacesAtOnce;
import lancespark.protocol.Json;
import lancespark.source.SessionEntry;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.connector.catalog.*;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.*;
import org.apache.spark.sql.types.StructType;

/**
 * The session catalog for a statement that replaces a lance table. Because it is a StagingTableCatalog, Spark replaces the table atomically
 * instead of dropping it first.
 */
@SuppressWarnings({"rawtypes", "deprecation"})
class ReplacingCatalog extends DelegatingCatalogExtension implements StagingTableCatalog, ReplacesAtOnce {
  ReplacingCatalog(CatalogPlugin session) { setDelegateCatalog(session); }

  public StagedTable stageCreate(Identifier name, Column[] columns, Transform[] partitions, Map properties) {
    throw new UnsupportedOperationException("this catalog only replaces tables");
  }

  public StagedTable stageReplace(Identifier name, Column[] columns, Transform[] partitions, Map properties) {
    return stageCreateOrReplace(name, columns, partitions, properties);
  }

  public StagedTable stageCreateOrReplace(Identifier name, Column[] columns, Transform[] partitions, Map properties) {
    CatalogTable old = SessionEntry.of(name);
    ObjectNode definition = SessionTables.checked(NamespaceCatalog.definition(columns, partitions, properties));
    StructType schema = CatalogV2Util.v2ColumnsToStructType(columns);
    return new ReplacedTable(old, Entry.of(old, schema, Json.texts(Json.at(definition, "properties"))), columns.length > 0);
  }
}
