package lancespark.protocol;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.Map;

/** What is added to the options of a user: one more option, with JSON. Its keys are the fields of Instructions in lance_spark.spark.protocol. */
@SuppressWarnings({"rawtypes", "unchecked"})
public final class Instructions {
  public static final String COMMAND = "command", OVERWRITE = "overwrite", BASED_ON = "based_on", LOST = "lost", DECLARED = "declared", CALL = "call", AGAIN = "again";

  private Instructions() {}

  /** Adds an instruction to these options. */
  public static void put(Map options, String key, JsonNode value) {
    String text = (String) options.get(Names.INSTRUCTIONS);
    ObjectNode all = text == null ? Json.object().put(Names.NUMBER, Protocol.VERSION) : (ObjectNode) Json.parse(text);
    all.set(key, value);
    options.put(Names.INSTRUCTIONS, Json.text(all));
  }

  /** The options of a statement over those of a table: of instructions, both have some. */
  public static void putAll(Map options, Map given) {
    String own = (String) options.get(Names.INSTRUCTIONS), text = (String) given.get(Names.INSTRUCTIONS);
    options.putAll(given);
    if (own != null && text != null) options.put(Names.INSTRUCTIONS, Json.text(((ObjectNode) Json.parse(own)).setAll((ObjectNode) Json.parse(text))));
  }

  /** The options of the user alone. */
  public static Map without(Map options) {
    Map rest = new HashMap(options);
    rest.remove(Names.INSTRUCTIONS);
    return rest;
  }
}
