package lancespark.text;

import org.apache.spark.sql.types.*;

/** The column is one of a common table expression of an outer query, which is analysed later. */
@SuppressWarnings("serial")
class NotYet extends RuntimeException {}
