package lancespark.catalog;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import lancespark.protocol.Json;
import lancespark.protocol.Names;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.ClusterByTransform;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import scala.jdk.javaapi.CollectionConverters;

/** The changes of ALTER TABLE as JSON. See lance_spark.spark.catalog.alter. */
@SuppressWarnings({"rawtypes", "unchecked", "deprecation"})
public class Changes {
  public static ArrayNode json(TableChange[] changes) {
    ArrayNode all = Json.array();
    for (int i = 0; i < changes.length; i++) all.add(json(changes[i]));
    return all;
  }

  public static ObjectNode json(TableChange change) {
    ObjectNode json = Json.object().put("change", change.getClass().getSimpleName());
    if (change instanceof TableChange.ColumnChange) json.set("path", Json.names(((TableChange.ColumnChange) change).fieldNames()));
    if (change instanceof TableChange.AddColumn) add(json, (TableChange.AddColumn) change);
    if (change instanceof TableChange.RenameColumn) json.put("to", ((TableChange.RenameColumn) change).newName());
    if (change instanceof TableChange.UpdateColumnType) json.put("type", ((TableChange.UpdateColumnType) change).newDataType().json());
    if (change instanceof TableChange.UpdateColumnNullability) json.put("nullable", ((TableChange.UpdateColumnNullability) change).nullable());
    if (change instanceof TableChange.UpdateColumnComment) json.put("comment", ((TableChange.UpdateColumnComment) change).newComment());
    if (change instanceof TableChange.UpdateColumnPosition) position(json, ((TableChange.UpdateColumnPosition) change).position());
    if (change instanceof TableChange.UpdateColumnDefaultValue) {
      json.put("default", ((TableChange.UpdateColumnDefaultValue) change).newDefaultValue());
    }
    if (change instanceof TableChange.SetProperty) {
      json.put("key", ((TableChange.SetProperty) change).property()).put("value", ((TableChange.SetProperty) change).value());
    }
    if (change instanceof TableChange.ClusterBy) json.set("columns", columns(((TableChange.ClusterBy) change).clusteringColumns()));
    else if (change.getClass().getSimpleName().equals("ClusterBy")) json.set("columns", columns(ofDelta(change)));
    if (change instanceof TableChange.RemoveProperty) json.put("key", ((TableChange.RemoveProperty) change).property());
    return json;
  }

  /** The columns of CLUSTER BY in a session with the parser of Delta Lake, which has a change of its own for it. */
  private static NamedReference[] ofDelta(TableChange change) {
    try {
      Object columns = change.getClass().getMethod("clusteringColumns", new Class[0]).invoke(change, new Object[0]);
      return (NamedReference[]) CollectionConverters.asJava((scala.collection.Seq) columns).toArray(new NamedReference[0]);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  /** The names of columns, quoted if they need it. */
  static ArrayNode columns(NamedReference[] columns) {
    ArrayNode all = Json.array();
    for (int i = 0; i < columns.length; i++) all.add(columns[i].describe());
    return all;
  }

  /** The property that says how a table is clustered. */
  static String clustering(NamedReference[] columns) {
    ObjectNode clustering = Json.object();
    clustering.set("columns", columns(columns));
    return Json.text(clustering);
  }

  /** CLUSTER BY of these columns; none if there are none. */
  static Transform[] clusters(JsonNode columns) {
    if (columns == null || columns.size() == 0) return new Transform[0];
    NamedReference[] references = new NamedReference[columns.size()];
    for (int i = 0; i < references.length; i++) references[i] = Expressions.column(Json.at(columns, i).asText());
    return new Transform[] { new ClusterByTransform(CollectionConverters.asScala(Arrays.asList(references)).toSeq()) };
  }

  /** A change of a table that is only an entry of Spark's catalog, which has the clustering as a property. */
  public static TableChange ofEntry(TableChange change) {
    JsonNode columns = Json.at(json(change), "columns");
    if (columns == null) return change;
    if (columns.size() == 0) return TableChange.removeProperty(Names.CLUSTERING);
    return TableChange.setProperty(Names.CLUSTERING, Json.text((ObjectNode) Json.object().set("columns", columns)));
  }

  /** The new column as a field, in whose metadata Spark has its comment and default. */
  private static void add(ObjectNode json, TableChange.AddColumn added) {
    String[] path = added.fieldNames();
    Column column = Column.create(path[path.length - 1], added.dataType(), added.isNullable(), added.comment(), added.defaultValue(), (String) null);
    json.put("field", CatalogV2Util.v2ColumnsToStructType(new Column[] { column }).json());
    if (added.position() != null) position(json, added.position());
  }

  /** The place of a column: after the column of a name, or first, which is null. */
  private static void position(ObjectNode json, TableChange.ColumnPosition position) {
    json.put("after", position instanceof TableChange.After ? ((TableChange.After) position).column() : (String) null);
  }
}
