package lancespark.statements;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.catalog.CatalogView;
import lancespark.catalog.NamespaceCatalog;
import lancespark.core.Session;
import lancespark.core.Walk;
import lancespark.protocol.Json;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.TemporaryViewRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * A statement about views in a catalog of lance tables, which Spark refuses, or about a table that was dropped. What it says is known in Python, see
 * lance_spark.spark.catalog.statements. The query of a view is that of a temporary one for a moment: so Spark analyses it, and keeps of it what
 * it keeps of its own views.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
class CatalogStatement {
  private final NamespaceCatalog catalog;
  private final StatementText statement;
  private Identifier id;

  CatalogStatement(NamespaceCatalog catalog, StatementText statement) {
    this.catalog = catalog;
    this.statement = statement;
  }

  /** The columns and rows of the statement, which runs now; null if it is one of Spark's. */
  JsonNode answer() throws Exception {
    ObjectNode request = statement.json().put("called", catalog.name());
    boolean isOfAll = ((String) statement.head.get(1)).equals("VIEWS");
    JsonNode meaning;
    if (isOfAll) {
      meaning = catalog.python.ask("statement_of_catalog", request, Place.namespace(statement.name));
    } else {
      id = Place.inCatalog(statement.name);
      meaning = catalog.python.ask("statement_of_catalog", request, id);
    }
    if (meaning.has("handedOver")) return null;
    if (!meaning.has("query")) return meaning;
    put(meaning);
    ObjectNode nothing = Json.object();
    nothing.set("columns", Json.array());
    nothing.set("rows", Json.array());
    return nothing;
  }

  static StructType schema(JsonNode columns) {
    StructType schema = new StructType();
    for (int i = 0; i < columns.size(); i++) {
      JsonNode column = Json.at(columns, i);
      schema = schema.add(Json.at(column, 0).asText(), DataType.fromDDL(Json.at(column, 1).asText()), false);
    }
    return schema;
  }

  private void put(JsonNode meaning) throws Exception {
    org.apache.spark.sql.classic.SparkSession session = Session.active();
    String temporary = Json.at(meaning, "temporary").asText();
    ObjectNode view;
    session.sql(Json.at(meaning, "query").asText());
    try {
      TemporaryViewRelation relation = (TemporaryViewRelation) session.sessionState().catalog().getRawTempView(temporary).get();
      CatalogTable entry = relation.tableMeta();
      checkNoTemporary("view", entry.viewReferredTempViewNames().size());
      checkNoTemporary("function", entry.viewReferredTempFunctionNames().size());
      checkNoTemporary("variable", entry.viewReferredTempVariableNames().size());
      checkNotInItself(((org.apache.spark.sql.classic.Dataset) session.table(temporary)).queryExecution().analyzed());
      view = CatalogView.definition(entry);
    } finally {
      session.catalog().dropTempView(temporary);
    }
    ((ObjectNode) Json.at(view, "properties")).put("view.schemaMode", Json.at(meaning, "mode").asText());
    view.set("own", Json.at(meaning, "own"));
    view.set("comment", Json.at(meaning, "comment"));
    ObjectNode request = Json.object();
    request.set("view", view);
    request.set("replace", Json.at(meaning, "replace"));
    request.set("if_not_exists", Json.at(meaning, "if_not_exists"));
    catalog.python.ask("put_view", request, id);
  }

  private void checkNoTemporary(String what, int count) {
    if (count == 0) return;
    throw new UnsupportedOperationException("the view " + id + " would outlive a temporary " + what + " that its query names; name a permanent one, "
        + "or write CREATE TEMPORARY VIEW");
  }

  /** Spark would look into a view that is in its own query again and again. */
  private void checkNotInItself(LogicalPlan query) throws Exception {
    final TableIdentifier own = CatalogView.name(catalog.name(), id);
    new Walk() {
      public LogicalPlan changed(LogicalPlan plan) {
        if (plan instanceof View && ((View) plan).desc().identifier().equals(own)) {
          throw new UnsupportedOperationException("the view " + id + " would be in its own query; write it without the view");
        }
        return plan;
      }
    }.in(query);
  }
}
