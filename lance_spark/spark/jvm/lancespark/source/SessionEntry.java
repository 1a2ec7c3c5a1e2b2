package lancespark.source;

import com.fasterxml.jackson.databind.node.BooleanNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.node.TextNode;
import java.io.File;
import java.net.URI;
import java.util.*;
import lancespark.core.Session;
import lancespark.protocol.Instructions;
import lancespark.protocol.Json;
import lancespark.protocol.Names;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import scala.jdk.javaapi.CollectionConverters;

/** The entry of a lance table in the session catalog. Spark itself passes neither its options nor its location to a Python source. */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
public class SessionEntry {
  /** Properties of an entry that are not those of its table: our note, the time that a Hive metastore notes, and what Spark has in other places, too. */
  private static final List NOT_OF_TABLE = Arrays.asList(new String[] { Names.WRITTEN, "transient_lastDdlTime", TableCatalog.PROP_LOCATION,
      TableCatalog.PROP_IS_MANAGED_LOCATION, TableCatalog.PROP_EXTERNAL, TableCatalog.PROP_PROVIDER, TableCatalog.PROP_OWNER, TableCatalog.PROP_COMMENT,
      TableCatalog.PROP_COLLATION });

  /** The options with which a table is read and written as it is. */
  public static Map optionsToOpen(CatalogTable entry) {
    Map options = options(entry);
    boolean mayBeLost = isLost(entry);
    if (mayBeLost) Instructions.put(options, Instructions.LOST, BooleanNode.TRUE);
    if (mayBeLost || !isWritten(entry)) Instructions.put(options, Instructions.DECLARED, new TextNode(entry.schema().json()));
    return options;
  }

  /** The table in a request to the catalog. */
  public static ObjectNode place(CatalogTable entry) { return (ObjectNode) Json.object().set("options", Json.texts(optionsToOpen(entry))); }

  /**
   * True if the folder of a table was deleted. Spark makes that of a managed table on a local disk when it creates the table. Folders of other
   * tables are made with the first version, of which there is a note. For one in an object store, that it is gone is known when it is opened.
   */
  private static boolean isLost(CatalogTable entry) {
    if (entry.storage().locationUri().isEmpty()) return false;
    URI location = (URI) entry.storage().locationUri().get();
    boolean isLocal = "file".equals(location.getScheme());
    if (isWritten(entry)) return !isLocal || !new File(location.getPath()).isDirectory();
    return isLocal && entry.tableType().name().equals("MANAGED") && !new File(location.getPath()).isDirectory();
  }

  public static boolean isWritten(CatalogTable entry) { return entry.properties().contains(Names.WRITTEN); }

  public static void checkNotLost(CatalogTable entry) {
    if (!isLost(entry)) return;
    throw new UnsupportedOperationException("the files of the table at " + options(entry).get("path") + " are missing: its folder was deleted. DROP TABLE removes it "
        + "from Spark's catalog, and CREATE OR REPLACE TABLE makes it again");
  }

  /** What to say of a table that is in Spark's catalog alone, where a statement is about its versions. */
  public static UnsupportedOperationException hasNoVersion(Identifier entry) {
    return new UnsupportedOperationException("the table " + entry + " has no version before its first rows, so there is nothing yet that the statement "
        + "is about; insert rows, and run it again");
  }

  public static Map options(CatalogTable entry) {
    Map options = new HashMap();
    for (Map.Entry property : CollectionConverters.asJava(entry.properties()).entrySet()) {
      if (isOfTable((String) property.getKey(), entry)) options.put(Names.TABLE_PROPERTY + property.getKey(), property.getValue());
    }
    if (!entry.comment().isEmpty()) options.put(Names.TABLE_PROPERTY + TableCatalog.PROP_COMMENT, entry.comment().get());
    options.putAll(CollectionConverters.asJava(entry.storage().properties()));
    if (!entry.storage().locationUri().isEmpty()) options.put("path", path((URI) entry.storage().locationUri().get()));
    return options;
  }

  /** False for an option of the entry, too, which Spark keeps among the properties under its name, and under one that says so. */
  private static boolean isOfTable(String property, CatalogTable entry) {
    boolean isOption = property.startsWith(TableCatalog.OPTION_PREFIX) || entry.properties().contains(TableCatalog.OPTION_PREFIX + property);
    return !isOption && !NOT_OF_TABLE.contains(property);
  }

  /** The location that the user gave. The catalog keeps it as a URI, in which it is percent-encoded. */
  private static String path(URI location) { return "file".equals(location.getScheme()) ? location.getPath() : new Path(location).toString(); }

  /** Whether the session catalog has a lance table with this name. */
  public static boolean isLance(Identifier name) {
    try {
      scala.Option provider = of(name).provider();
      return !provider.isEmpty() && Names.FORMAT.equalsIgnoreCase((String) provider.get());
    } catch (Throwable thereIsNone) {
      return false;
    }
  }

  public static CatalogTable of(Identifier name) {
    TableIdentifier identifier = new TableIdentifier(name.name(), new scala.Some(name.namespace()[0]));
    try {
      return (CatalogTable) (Object) Session.active().sessionState().catalog().getTableMetadata(identifier);
    } catch (Exception e) {
      Platform.throwException(e);
      return null;
    }
  }

  /**
   * The rows' schema with what the catalog's declares: a column may be null although a query returns no nulls, and have a default, a comment, and
   * be CHAR, of which the rows say nothing.
   */
  public static StructType declared(StructType rows, StructType table) {
    if (rows.length() != table.length()) return rows;
    StructField[] fields = new StructField[rows.length()];
    for (int i = 0; i < fields.length; i++) {
      StructField row = rows.fields()[i], own = table.fields()[i];
      if (!row.name().equalsIgnoreCase(own.name()) || !DataType.equalsIgnoreNullability(row.dataType(), own.dataType())) return rows;
      MetadataBuilder declared = new MetadataBuilder().withMetadata(row.metadata()).withMetadata(own.metadata());
      fields[i] = new StructField(row.name(), own.dataType(), own.nullable(), declared.putString(Names.DECLARED_COLUMN, "true").build());
    }
    return new StructType(fields);
  }
}
