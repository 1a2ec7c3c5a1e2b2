package lancespark.source;

import java.util.*;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Spark's description of a write without rows. */
@SuppressWarnings("unchecked")
public class NoRows extends RowsInfo implements PhysicalWriteInfo {
  public NoRows(StructType schema) { super(CaseInsensitiveStringMap.empty(), schema, UUID.randomUUID().toString()); }

  public int numPartitions() { return 0; }
}
