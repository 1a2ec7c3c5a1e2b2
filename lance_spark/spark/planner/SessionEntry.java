package lancespark;

import java.io.File;
import java.net.URI;
import java.util.*;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/** The entry of a lance table in the session catalog. Spark itself passes neither its options nor its location to a Python source. */
class SessionEntry {
  /** Before the names of TBLPROPERTIES, of which lance_spark.spark.options takes those that say how a new table is written. */
  private static final String PROPERTY = "tblproperties.";
  /** The option that says that the files of the table were deleted (lance_spark.spark.source). */
  private static final String LOST = "__lance_lost";

  /** The options of a relation of the session catalog, with its location as `path`; null for other relations. */
  static Map options(scala.Option catalog, scala.Option identifier) throws Exception {
    if (identifier.isEmpty() || catalog.isEmpty() || !((CatalogPlugin) catalog.get()).name().equals("spark_catalog")) return null;
    return optionsToOpen(of((Identifier) identifier.get()));
  }

  /** The options with which a table is read and written as it is. */
  static Map optionsToOpen(CatalogTable entry) {
    Map options = options(entry);
    if (isLost(entry)) options.put(LOST, "true");
    return options;
  }

  /**
   * True if the folder of a managed table was deleted: Spark makes it when it creates the table. Before the first rows, nothing else is there.
   * Folders of other tables, and those in object stores, are made with the first rows.
   */
  private static boolean isLost(CatalogTable entry) {
    if (!entry.tableType().name().equals("MANAGED") || entry.storage().locationUri().isEmpty()) return false;
    URI location = (URI) entry.storage().locationUri().get();
    return "file".equals(location.getScheme()) && !new File(location.getPath()).isDirectory();
  }

  static Map options(CatalogTable entry) {
    Map options = new HashMap();
    Iterator it = CollectionConverters.asJava(entry.properties()).entrySet().iterator();
    while (it.hasNext()) {
      Map.Entry property = (Map.Entry) it.next();
      options.put(PROPERTY + property.getKey(), property.getValue());
    }
    options.putAll(CollectionConverters.asJava(entry.storage().properties()));
    if (!entry.storage().locationUri().isEmpty()) options.put("path", path((URI) entry.storage().locationUri().get()));
    return options;
  }

  /** The location that the user gave. The catalog keeps it as a URI, in which it is percent-encoded. */
  private static String path(URI location) { return "file".equals(location.getScheme()) ? location.getPath() : new Path(location).toString(); }

  static CatalogTable of(Identifier name) throws Exception {
    TableIdentifier identifier = new TableIdentifier(name.name(), new scala.Some(name.namespace()[0]));
    return (CatalogTable) (Object) LancePlanner.session().sessionState().catalog().getTableMetadata(identifier);
  }

  /** nullability.py looks for it in the metadata of rows. */
  private static final String DECLARED = "__lance_declared";

  /** The rows' schema, nullable where the catalog's schema is: that a query returns no nulls does not restrict the table. */
  static StructType declared(StructType rows, StructType table) {
    if (rows.length() != table.length()) return rows;
    StructField[] fields = new StructField[rows.length()];
    for (int i = 0; i < fields.length; i++) {
      StructField row = rows.fields()[i], own = table.fields()[i];
      if (!row.name().equalsIgnoreCase(own.name()) || !DataType.equalsIgnoreNullability(row.dataType(), own.dataType())) return rows;
      Metadata declared = new MetadataBuilder().withMetadata(row.metadata()).putString(DECLARED, "true").build();
      fields[i] = new StructField(row.name(), own.dataType(), own.nullable(), declared);
    }
    return new StructType(fields);
  }
}
