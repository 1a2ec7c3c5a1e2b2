package lancespark.search;

import com.fasterxml.jackson.databind.JsonNode;
import lancespark.protocol.Instructions;
import lancespark.protocol.Json;
import lancespark.scan.SearchPlan;
import lancespark.source.Source;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.types.StructType;

/** Plans searches for vectors: those of the option nearest, and of table functions. */
public class VectorSearch implements SearchPlan {
  public Scan scan(Source source, StructType schema) {
    JsonNode call = Instructions.get(source.options, Instructions.CALL);
    boolean isCalled = call != null && Json.at(call, "name").textValue().endsWith("vector_search");
    return isCalled || source.options.containsKey("nearest") ? FoundRows.of(source, schema) : null;
  }
}
