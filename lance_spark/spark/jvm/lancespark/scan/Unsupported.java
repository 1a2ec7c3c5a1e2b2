package lancespark.scan;

import org.apache.spark.sql.connector.expressions.*;
import org.apache.spark.sql.connector.expressions.aggregate.*;
import org.apache.spark.sql.types.*;

/** An aggregation that the reader does not support. */
@SuppressWarnings("serial")
class Unsupported extends Exception {}
