package lancespark.statements;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.core.Session;
import lancespark.protocol.Json;
import org.apache.spark.sql.DataFrameReader;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.SparkSession;

/** COPY INTO: Spark lists the files and inserts their rows. Which ones the table has already is known in Python, see lance_spark.spark.catalog.copy_into. */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
class FileCopy {
  private static final int TRIES = 20;
  private final SparkSession session = Session.active();
  private final Place place;
  private final ObjectNode copy;

  FileCopy(Place place, ObjectNode copy) {
    this.place = place;
    this.copy = copy;
  }

  /** Loads the files that the table lacks, and returns the number of their rows. */
  long rows() {
    ArrayNode files = listed();
    for (int i = 0; i < TRIES; i++) {
      ObjectNode request = Json.object();
      request.set("copy", copy);
      request.set("files", files);
      request.set("place", place.json);
      JsonNode load = place.catalog.python.ask("begin_copy", request, place.id, place.id.namespace());
      if (Json.at(load, "files").isEmpty()) return 0;
      insert(Json.at(load, "files"), Json.at(load, "sql").asText());
      ObjectNode question = Json.object().put("number", Json.at(load, "number").asText());
      question.set("place", place.json);
      JsonNode end = place.catalog.python.ask("end_copy", question, place.id, place.id.namespace());
      if (Json.at(end, "done").asBoolean()) return Json.at(end, "rows").asLong();
    }
    throw new IllegalStateException("COPY INTO: others committed first in all " + TRIES + " tries; run the statement again");
  }

  /** The paths of all files that the statement names, in order. */
  private ArrayNode listed() {
    String base = Json.at(copy, "path").asText(), pattern = Json.at(copy, "pattern").asText();
    JsonNode names = Json.at(copy, "files");
    List paths = new ArrayList();
    for (int i = 0; i < names.size(); i++) paths.add(base + "/" + Json.at(names, i).asText());
    if (paths.isEmpty()) paths.add(pattern.isEmpty() ? base : base + "/" + pattern);
    DataFrameReader reader = (DataFrameReader) session.read().format("binaryFile").option("recursiveFileLookup", "true");
    Dataset found = (Dataset) reader.load((String[]) paths.toArray(new String[paths.size()])).select("path", new String[0]);
    List all = new ArrayList();
    for (Row row : ((Dataset<Row>) found).collectAsList()) all.add(row.getString(0));
    Collections.sort(all);
    return Json.names((String[]) all.toArray(new String[all.size()]));
  }

  private void insert(JsonNode files, String sql) {
    String[] paths = new String[files.size()];
    boolean hasPartitions = false;
    String base = Json.at(copy, "path").asText();
    for (int i = 0; i < paths.length; i++) {
      paths[i] = Json.at(files, i).asText();
      hasPartitions = hasPartitions || paths[i].substring(0, paths[i].lastIndexOf('/')).indexOf('=') > base.length();
    }
    DataFrameReader reader = (DataFrameReader) session.read().format(Json.at(copy, "format").asText()).options(Json.texts(Json.at(copy, "formatOptions")));
    if (hasPartitions) reader = (DataFrameReader) reader.option("basePath", base);
    String view = "lance_copy_" + UUID.randomUUID().toString().replace("-", "");
    ((Dataset) reader.load(paths)).createOrReplaceTempView(view);
    try {
      session.sql(sql.replace("{view}", view));
    } finally {
      session.catalog().dropTempView(view);
    }
  }
}
