package lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import lancespark.protocol.Json;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.*;

/** The rows that a procedure returns. */
public class Rows implements LocalScan {
  private final StructType schema;
  private final JsonNode rows;

  public Rows(StructType schema, JsonNode rows) {
    this.schema = schema;
    this.rows = rows;
  }

  public StructType readSchema() { return schema; }

  public InternalRow[] rows() {
    InternalRow[] all = new InternalRow[rows.size()];
    for (int i = 0; i < all.length; i++) {
      Object[] values = new Object[schema.length()];
      for (int k = 0; k < values.length; k++) values[k] = Values.spark(Json.at(Json.at(rows, i), k), schema.fields()[k].dataType());
      all[i] = new GenericInternalRow(values);
    }
    return all;
  }
}
