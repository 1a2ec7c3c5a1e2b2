package lancespark.scan;

import java.util.*;
import org.apache.spark.sql.connector.expressions.*;
import org.apache.spark.sql.connector.expressions.aggregate.*;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.types.*;

public class Size implements Statistics {
  private final OptionalLong rows, bytes;

  public Size(OptionalLong rows, OptionalLong bytes) {
    this.rows = rows;
    this.bytes = bytes;
  }

  public OptionalLong sizeInBytes() { return bytes; }
  public OptionalLong numRows() { return rows; }
}
