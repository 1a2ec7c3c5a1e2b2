package lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import lancespark.protocol.Json;
import lancespark.protocol.Names;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.IdentityColumnSpec;

/** The columns of a new table as JSON of Spark's types, with what Spark leaves out of it: how GENERATED columns get their values. */
class Columns {
  private Columns() {}

  static JsonNode json(Column[] columns) {
    JsonNode schema = Json.parse(CatalogV2Util.v2ColumnsToStructType(columns).json());
    JsonNode fields = Json.at(schema, "fields");
    for (int i = 0; i < columns.length; i++) {
      ObjectNode metadata = (ObjectNode) Json.at(Json.at(fields, i), "metadata");
      if (columns[i].generationExpression() != null) metadata.put(Names.COMPUTED, columns[i].generationExpression());
      IdentityColumnSpec identity = columns[i].identityColumnSpec();
      if (identity != null) metadata.put(Names.IDENTITY, text(identity));
    }
    return schema;
  }

  private static String text(IdentityColumnSpec identity) {
    return Json.text(Json.object().put("start", identity.getStart()).put("step", identity.getStep()).put("always", !identity.isAllowExplicitInsert()));
  }
}
