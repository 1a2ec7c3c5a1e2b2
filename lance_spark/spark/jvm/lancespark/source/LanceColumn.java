package lancespark.source;

import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.types.DataType;

class LanceColumn implements MetadataColumn {
  private final String name, comment;
  private final DataType type;
  private final boolean isNullable;

  LanceColumn(String name, DataType type, boolean isNullable, String comment) {
    this.name = name;
    this.type = type;
    this.isNullable = isNullable;
    this.comment = comment;
  }

  public String name() { return name; }
  public DataType dataType() { return type; }
  public boolean isNullable() { return isNullable; }
  public String comment() { return comment; }
}
