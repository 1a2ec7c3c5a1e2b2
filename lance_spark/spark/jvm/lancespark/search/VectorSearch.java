package lancespark.search;

import lancespark.scan.SearchPlan;
import lancespark.source.Source;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.types.StructType;

/** Plans searches for vectors: those of the option nearest, and of table functions. */
public class VectorSearch implements SearchPlan {
  public Scan scan(Source source, StructType schema) { return FoundRows.of(source, schema); }
}
