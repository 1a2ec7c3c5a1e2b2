package lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.core.Answers;
import lancespark.core.SparkInternals;
import lancespark.protocol.Json;
import lancespark.protocol.Names;
import lancespark.protocol.PickleWriter;
import lancespark.protocol.Protocol;
import lancespark.source.Source;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;

/** Requests to lance_spark.spark.catalog.source, each in a Python process of the driver. */
@SuppressWarnings({"rawtypes", "unchecked"})
public class CatalogPython {
  final Map settings;

  /** `settings` are those of the catalog. */
  CatalogPython(Map settings) { this.settings = settings; }

  /** The same for the requests of a transaction; null for those outside of one. */
  CatalogPython in(String transaction) {
    Map changed = new HashMap(settings);
    changed.remove(Names.TRANSACTION);
    if (transaction != null) changed.put(Names.TRANSACTION, transaction);
    return new CatalogPython(changed);
  }

  /** The class of the data source, found in the same packages as the format lance. */
  private static UserDefinedPythonDataSource definition() {
    UserDefinedPythonDataSource known = Source.unopened().source();
    return Answers.to(new UserDefinedPythonDataSource(known.createPythonFunction(PickleWriter.named(Names.CATALOG_MODULE, Names.CATALOG_CLASS))));
  }

  /** A data source whose writer or reader serves a request. */
  static PythonDataSourceV2 unopened() {
    PythonDataSourceV2 source = new PythonDataSourceV2();
    source.setShortName(Names.CATALOG_FORMAT);
    SparkInternals.set(source, "source", definition());
    SparkInternals.set(source, "bitmap$0", Boolean.TRUE);
    return source;
  }

  CaseInsensitiveStringMap options(String operation, ObjectNode arguments) {
    ObjectNode request = Json.object().put(Names.NUMBER, Protocol.VERSION).put("operation", operation).put("id", UUID.randomUUID().toString());
    request.set("settings", Json.texts(settings));
    request.set("arguments", arguments);
    return new CaseInsensitiveStringMap(Collections.singletonMap(Names.REQUEST, Json.text(request)));
  }

  /** The answer to a request about a table. */
  public JsonNode ask(String operation, ObjectNode arguments, Identifier id) {
    arguments.set("id", Json.names(id));
    return ask(operation, arguments, id, id.namespace());
  }

  /** The answer to a request about a namespace. */
  public JsonNode ask(String operation, ObjectNode arguments, String[] namespace) {
    arguments.set("id", Json.names(namespace));
    return ask(operation, arguments, Identifier.of(namespace, ""), namespace);
  }

  /** The answer to a request. Errors name the table or the namespace. */
  public JsonNode ask(String operation, ObjectNode arguments, Identifier id, String[] namespace) {
    PythonDataSourceCreationResult result =
        definition().createDataSourceInPython(Names.CATALOG_FORMAT, options(operation, arguments), (scala.Option) scala.Option.empty());
    JsonNode answer = Json.parse(result.schema().fields()[0].metadata().getString(Names.ANSWER));
    Protocol.check(Json.at(answer, Names.NUMBER).intValue());
    if (answer.has("error")) Platform.throwException(error(Json.at(answer, "error").asText(), Json.at(answer, "message").asText(), id, namespace));
    return Json.at(answer, "value");
  }

  private static Throwable error(String kind, String message, Identifier id, String[] namespace) {
    if (kind.equals(Names.NO_TABLE)) return new NoSuchTableException(id);
    if (kind.equals(Names.TABLE_EXISTS)) return new TableAlreadyExistsException(id);
    if (kind.equals(Names.NO_NAMESPACE)) return new NoSuchNamespaceException(namespace);
    if (kind.equals(Names.NAMESPACE_EXISTS)) return new NamespaceAlreadyExistsException(namespace);
    if (kind.equals(Names.NAMESPACE_NOT_EMPTY)) return new NonEmptyNamespaceException(namespace);
    return new UnsupportedOperationException(message);
  }
}
