package lancespark.source;

import java.util.*;
import lancespark.protocol.Instructions;
import lancespark.protocol.Names;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Spark's description of a write, with the options and the schema of the catalog's table. */
@SuppressWarnings({"rawtypes", "unchecked"})
public class WriteInfo extends RowsInfo {
  private static final List PLACE = Arrays.asList(Names.PLACE_OPTIONS.split(" "));

  public WriteInfo(LogicalWriteInfo info, Map stored, StructType schema) { super(over(stored, info.options()), schema, info.queryId()); }

  /** Options of a statement over those of a table, from which the statement cannot redirect to another table. */
  public static CaseInsensitiveStringMap over(Map stored, CaseInsensitiveStringMap given) {
    Map all = new HashMap(stored), more = new HashMap();
    for (Map.Entry option : given.asCaseSensitiveMap().entrySet()) {
      if (!PLACE.contains(((String) option.getKey()).toLowerCase(Locale.ROOT))) more.put(option.getKey(), option.getValue());
    }
    Instructions.putAll(all, more);
    return new CaseInsensitiveStringMap(all);
  }
}
