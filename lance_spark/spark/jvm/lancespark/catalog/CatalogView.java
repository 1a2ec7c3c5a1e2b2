package lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.core.SparkInternals;
import lancespark.protocol.Json;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTable$;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import scala.jdk.javaapi.CollectionConverters;

/** A view of a NamespaceCatalog, as the entry of a view that Spark's analyzer replaces by its query, in the catalog of any version of Spark. */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
public class CatalogView {
  private CatalogView() {}

  /** The name of a view in its entry. */
  public static TableIdentifier name(String catalog, Identifier id) {
    return new TableIdentifier(id.name(), (scala.Option) scala.Option.apply(String.join(".", id.namespace())), (scala.Option) scala.Option.apply(catalog));
  }

  /** `view` is the definition in the answer of lance_spark.spark.catalog.tables.load. */
  static Table of(String catalog, Identifier id, JsonNode view) {
    try {
      Object schema = DataType.fromJson(Json.at(view, "schema").asText());
      Object[] first = new Object[] { name(catalog, id), CatalogTableType.VIEW(), CatalogStorageFormat.empty(), schema };
      scala.Product entry = (scala.Product) SparkInternals.made(CatalogTable$.MODULE$, "apply", first);
      Map properties = Json.texts(Json.at(view, "properties"));
      properties.putAll(Json.texts(Json.at(view, "own")));
      entry = SparkInternals.with(entry, "properties", scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(properties)));
      String text = Json.at(view, "text").asText(), comment = Json.at(view, "comment").asText();
      entry = SparkInternals.with(entry, "viewText", scala.Option.apply(text));
      entry = SparkInternals.with(entry, "viewOriginalText", scala.Option.apply(text));
      if (!comment.isEmpty()) entry = SparkInternals.with(entry, "comment", scala.Option.apply(comment));
      return new V1Table((CatalogTable) entry);
    } catch (Exception e) {
      Platform.throwException(e);
      return null;
    }
  }

  /** The definition that is kept of the entry that Spark has made of a temporary view. */
  public static ObjectNode definition(CatalogTable entry) {
    ObjectNode view = Json.object().put("text", (String) entry.viewText().get()).put("schema", ((StructType) entry.schema()).json());
    view.set("properties", Json.texts(CollectionConverters.asJava(entry.properties())));
    return view;
  }
}
