package lancespark.protocol;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.json.JsonReadFeature;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import com.fasterxml.jackson.databind.ObjectWriter;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import org.apache.spark.sql.connector.catalog.Identifier;

/** JSON values, their text, and their parts. */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
public final class Json {
  private static final JsonNodeFactory NODES = JsonNodeFactory.instance;
  private static final ObjectMapper MAPPER = new ObjectMapper();
  /** Python writes and reads NaN and Infinity as numbers. */
  private static final ObjectReader READER = MAPPER.reader().with(JsonReadFeature.ALLOW_NON_NUMERIC_NUMBERS);
  private static final ObjectWriter WRITER = MAPPER.writer().with(JsonWriteFeature.ESCAPE_NON_ASCII).without(JsonWriteFeature.WRITE_NAN_AS_STRINGS);

  private Json() {}

  public static ObjectNode object() { return NODES.objectNode(); }
  public static ArrayNode array() { return NODES.arrayNode(); }

  /** The JSON text, in ASCII. */
  public static String text(JsonNode node) {
    try {
      return WRITER.writeValueAsString(node);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(e);
    }
  }

  public static JsonNode parse(String text) {
    try {
      return READER.readTree(text);
    } catch (java.io.IOException e) {
      throw new IllegalStateException(e);
    }
  }

  /** A map or list of Java as JSON. */
  public static JsonNode of(Object value) { return (JsonNode) (Object) MAPPER.valueToTree(value); }

  /** The value of a key. Janino needs the cast. */
  public static JsonNode at(JsonNode object, String key) { return (JsonNode) object.get(key); }
  public static JsonNode at(JsonNode array, int i) { return (JsonNode) array.get(i); }

  public static ArrayNode names(String[] names) {
    ArrayNode all = array();
    for (int i = 0; i < names.length; i++) all.add(names[i]);
    return all;
  }

  public static ArrayNode names(Identifier id) { return names(id.namespace()).add(id.name()); }

  /** A map of strings as JSON. */
  public static ObjectNode texts(Map<?, ?> map) {
    ObjectNode all = object();
    for (Map.Entry entry : map.entrySet()) {
      all.put((String) entry.getKey(), (String) entry.getValue());
    }
    return all;
  }

  public static Map texts(JsonNode object) {
    Map all = new LinkedHashMap();
    Iterator it = object.fieldNames();
    while (it.hasNext()) {
      String key = (String) it.next();
      all.put(key, at(object, key).asText());
    }
    return all;
  }
}
