package lancespark;

import java.util.*;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Spark's description of a write, with the options and the schema of the catalog's table. */
class WriteInfo extends RowsInfo {
  private static final List PLACE = Arrays.asList(new String[] { "path", "table", "namespace" });

  WriteInfo(LogicalWriteInfo info, Map stored, StructType schema) { super(over(stored, info.options()), schema, info.queryId()); }

  /** Options of a statement over those of a table, from which the statement cannot redirect to another table. */
  static CaseInsensitiveStringMap over(Map stored, CaseInsensitiveStringMap given) {
    Map all = new HashMap(stored);
    Iterator it = given.asCaseSensitiveMap().entrySet().iterator();
    while (it.hasNext()) {
      Map.Entry option = (Map.Entry) it.next();
      if (!PLACE.contains(((String) option.getKey()).toLowerCase(Locale.ROOT))) all.put(option.getKey(), option.getValue());
    }
    return new CaseInsensitiveStringMap(all);
  }
}

/** Spark's description of a write. */
class RowsInfo implements LogicalWriteInfo {
  private final CaseInsensitiveStringMap options;
  private final StructType schema;
  private final String id;

  RowsInfo(CaseInsensitiveStringMap options, StructType schema, String id) {
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

/** Spark's description of a write without rows. */
class NoRows extends RowsInfo implements PhysicalWriteInfo {
  NoRows(StructType schema) { super(CaseInsensitiveStringMap.empty(), schema, UUID.randomUUID().toString()); }

  public int numPartitions() { return 0; }
}
