package lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import lancespark.core.Session;
import lancespark.protocol.Json;
import lancespark.protocol.Names;
import lancespark.scan.TaskLoop;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;

/** A call of a procedure, see lance_spark.spark.catalog.calls. */
@SuppressWarnings({"rawtypes", "unchecked"})
class ProcedureCall extends TaskLoop {
  private final CatalogPython python;
  private final ObjectNode request;
  private final Identifier table;
  private JsonNode rows;

  ProcedureCall(CatalogPython python, String name, ObjectNode place, ObjectNode arguments) {
    this.python = python;
    request = Json.object().put("name", name);
    request.set("place", place);
    request.set("arguments", arguments);
    table = named(place);
  }

  /** The rows that the procedure returns. */
  JsonNode rows() throws Exception {
    begin();
    finish();
    return rows;
  }

  protected Table ask(ArrayNode results) throws Exception {
    request.set("results", results);
    JsonNode answer = python.ask("call", request.deepCopy(), table, table.namespace());
    rows = Json.at(answer, "rows");
    if (answer.has("sql")) {
      List found = Session.active().sql(Json.at(answer, "sql").asText()).collectAsList();
      if (rows == null) rows = counts(found);
    }
    return rows == null ? tasks(Json.at(answer, "version").asLong()) : null;
  }

  /** The rows of a statement that returns numbers. */
  private static JsonNode counts(List found) {
    ArrayNode all = Json.array();
    for (int i = 0; i < found.size(); i++) {
      ArrayNode counts = all.addArray();
      Row row = (Row) found.get(i);
      for (int k = 0; k < row.length(); k++) counts.add(row.getLong(k));
    }
    return all;
  }

  /** The next tasks on this version of the table. */
  private Table tasks(long version) throws Exception {
    PythonDataSourceV2 source = CatalogPython.unopened();
    source.getOrCreateDataSourceInPython(Names.CATALOG_FORMAT, python.options("tasks", request.put("version", version)), (scala.Option) scala.Option.empty());
    return new PythonTable(source, Names.CATALOG_FORMAT, RESULT);
  }

  /** The name of the table for errors. */
  private static Identifier named(ObjectNode place) {
    JsonNode names = Json.at(place, "id");
    if (names == null) return Identifier.of(new String[0], place.toString());
    String[] namespace = new String[names.size() - 1];
    for (int i = 0; i < namespace.length; i++) namespace[i] = Json.at(names, i).asText();
    return Identifier.of(namespace, Json.at(names, namespace.length).asText());
  }
}
