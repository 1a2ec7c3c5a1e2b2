package lancespark.source;

import java.util.*;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Spark's description of a write. */
@SuppressWarnings({"rawtypes", "unchecked"})
public class RowsInfo implements LogicalWriteInfo {
  private final CaseInsensitiveStringMap options;
  private final StructType schema;
  private final String id;

  public RowsInfo(CaseInsensitiveStringMap options, StructType schema, String id) {
    this.options = options;
    this.schema = schema;
    this.id = id;
  }

  public CaseInsensitiveStringMap options() { return options; }
  public String queryId() { return id; }
  public StructType schema() { return schema; }
  public Optional rowIdSchema() { return Optional.empty(); }
  public Optional metadataSchema() { return Optional.empty(); }
}
