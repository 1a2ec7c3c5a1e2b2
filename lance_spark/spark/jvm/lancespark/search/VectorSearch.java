package lancespark.search;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import lancespark.scan.SearchPlan;
import lancespark.source.Source;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.types.StructType;

/** Plans searches for vectors: those of the option nearest, and of table functions. */
public class VectorSearch implements SearchPlan {
  public Scan scan(Source source, StructType schema) {
    String call = source.options.get(Source.CALL);
    return source.options.containsKey("nearest") || call != null && isForVectors(call) ? FoundRows.of(source, schema) : null;
  }

  private static boolean isForVectors(String call) {
    try {
      return ((JsonNode) new ObjectMapper().readTree(call)).get("name").textValue().endsWith("vector_search");
    } catch (JsonProcessingException e) {
      return false;
    }
  }
}
