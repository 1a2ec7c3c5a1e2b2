package lancespark.scan;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.protocol.Json;
import org.apache.spark.sql.connector.expressions.*;
import org.apache.spark.sql.connector.expressions.aggregate.*;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.types.*;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The request for one scan, as JSON for Python and as Spark's values for explain. See lance_spark.spark.read.request. */
@SuppressWarnings({"rawtypes", "unchecked"})
public class Request {
  /** The option of a relation with conditions that Spark does not push, see ExtraConditions. */
  public static final String CONDITIONS = "lance_spark.conditions";
  final List predicates = new ArrayList();
  /** The SQL of conditions that Spark cannot express as predicates, and evaluates again. */
  final List extra = new ArrayList();
  /** The JSON of all of them. */
  final ArrayNode filters = Json.array();
  int limit = -1;
  ArrayNode topN;
  String shownTopN;
  PushedAggregates aggregates;
  boolean rowsOnly = false;
  public boolean changesRows = false;

  /** The request as JSON: the part common to all requests on the source, and the run-time filters of one execution. */
  String json(ObjectNode json, List runtimeFilters) {
    json.set("filter", filters.deepCopy().addAll(runtimeFilters));
    if (limit >= 0) json.put("limit", limit);
    if (topN != null) json.set("top", topN);
    if (aggregates != null) json.set("aggregates", aggregates.functions);
    if (aggregates != null) json.set("keys", aggregates.keys);
    if (rowsOnly) json.put("rows_only", true);
    if (changesRows) json.put("changes_rows", true);
    return Json.text(json);
  }

  /** The options of a table without those of one relation. */
  public static CaseInsensitiveStringMap without(CaseInsensitiveStringMap options) {
    if (!options.containsKey(CONDITIONS)) return options;
    Map others = new HashMap(options.asCaseSensitiveMap());
    others.remove(CONDITIONS);
    return new CaseInsensitiveStringMap(others);
  }

  /** Adds the conditions in the options of a relation. */
  void addConditions(CaseInsensitiveStringMap options) {
    if (!options.containsKey(CONDITIONS)) return;
    try {
      for (JsonNode condition : new ObjectMapper().readTree(options.get(CONDITIONS))) {
        extra.add(((JsonNode) (Object) condition.get(0)).asText());
        filters.add((JsonNode) (Object) condition.get(1));
      }
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(e);
    }
  }

  /** The text that explain shows. */
  Map shown(StructType schema, List runtimePredicates) {
    Map out = new LinkedHashMap();
    List all = new ArrayList(predicates);
    all.addAll(extra);
    out.put("PushedFilters", all.toString());
    if (!runtimePredicates.isEmpty()) out.put("RuntimeFilters", runtimePredicates.toString());
    if (topN != null) out.put("PushedTopN", shownTopN);
    else if (limit >= 0) out.put("PushedLimit", "LIMIT " + limit);
    if (aggregates != null) out.put("PushedAggregates", aggregates.shown);
    out.put("ReadSchema", schema.simpleString());
    return out;
  }
}
