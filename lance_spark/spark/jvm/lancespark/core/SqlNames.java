package lancespark.core;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.*;
import lancespark.protocol.Json;
import org.apache.spark.unsafe.Platform;
import scala.jdk.javaapi.CollectionConverters;

/** Names in SQL, and their parts. */
@SuppressWarnings({"rawtypes", "unchecked"})
public final class SqlNames {
  private SqlNames() {}

  /** The parts of a name. */
  public static List parts(String name) {
    try {
      return new ArrayList(CollectionConverters.asJava((scala.collection.Seq) Session.active().sessionState().sqlParser().parseMultipartIdentifier(name)));
    } catch (Exception e) {
      Platform.throwException(e);
      return null;
    }
  }

  /** The name of these parts, each in backticks. */
  public static String quoted(JsonNode parts) {
    List all = new ArrayList();
    for (int i = 0; i < parts.size(); i++) all.add("`" + Json.at(parts, i).asText().replace("`", "``") + "`");
    return String.join(".", all);
  }
}
