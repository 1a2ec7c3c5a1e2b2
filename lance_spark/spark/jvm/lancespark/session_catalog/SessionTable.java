package lancespark.session_catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.catalog.NamedTable;
import lancespark.catalog.NamespaceCatalog;
import lancespark.core.Session;
import lancespark.core.SessionCatalogs;
import lancespark.protocol.Json;
import lancespark.protocol.Names;
import lancespark.source.SessionEntry;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table of the session catalog. Its commits are noted in its entry there. */
@SuppressWarnings({"rawtypes", "unchecked"})
class SessionTable extends NamedTable {
  private final Identifier id;
  private final CatalogTable entry;

  SessionTable(Identifier id, CatalogTable entry, JsonNode loaded) {
    super(SessionCatalogs.SESSION + "." + id, loaded, Entry.properties(entry));
    this.id = id;
    this.entry = entry;
  }

  /** None before the first version. */
  protected Map details(CatalogPlugin catalog, Identifier id) {
    if (source(CaseInsensitiveStringMap.empty()).version() == 0) return Collections.EMPTY_MAP;
    ObjectNode request = Json.object();
    request.set("place", SessionEntry.place(entry));
    return Json.texts(NamespaceCatalog.ofPaths().python.ask("details", request, id, id.namespace()));
  }

  public Write noting(Write write, LogicalWriteInfo info) {
    boolean changesColumns = info.options().getBoolean(Names.MERGE_SCHEMA, false);
    return SessionEntry.isWritten(entry) && !changesColumns ? write : new NotedWrite(write, this, changesColumns);
  }

  public void noteCommit(boolean changesColumns) {
    try {
      if (changesColumns) Entry.settle(id);
      else Entry.note(id);
    } catch (Throwable t) {
      Session.LOG.warn("the rows of " + id + " are written, but not noted in Spark's catalog: it may lack new columns, and if the files are deleted "
          + "by other means, the table will be read as empty", t);
    }
  }
}
