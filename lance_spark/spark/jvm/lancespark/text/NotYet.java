package lancespark.text;

import org.apache.spark.sql.types.*;

/** The column is one of a common table expression of an outer query, which is analysed later. */
class NotYet extends RuntimeException {}
