package lancespark.scan;

import lancespark.source.Source;
import org.apache.spark.sql.connector.expressions.*;
import org.apache.spark.sql.connector.expressions.aggregate.*;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.types.*;

/** Plans searches that Spark has the rows of when it plans a query. */
public interface SearchPlan {
  /** The scan of these rows; null for what is no such search. */
  Scan scan(Source source, StructType schema);
}
