package lancespark.session_catalog;

import java.util.*;
import lancespark.protocol.Names;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/** A table with the properties of its entry in the catalog. */
class DescribedTable implements Table {
  private final Table table;
  private final V1Table entry;

  DescribedTable(Table table, V1Table entry) {
    this.table = table;
    this.entry = entry;
  }

  public String name() { return entry.name(); }
  public StructType schema() { return table.schema(); }
  public Set capabilities() { return table.capabilities(); }

  /** Without the options under their own names, which are there a second time under names that say so. */
  public Map properties() {
    Map properties = new HashMap(entry.properties());
    properties.keySet().removeAll(CollectionConverters.asJava(entry.options()).keySet());
    properties.putAll(CollectionConverters.asJava(entry.catalogTable().properties()));
    properties.remove(Names.WRITTEN);
    return properties;
  }
}
