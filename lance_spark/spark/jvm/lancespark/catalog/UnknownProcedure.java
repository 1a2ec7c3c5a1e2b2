package lancespark.catalog;

import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.types.*;

/** Spark shows the message of an error only if it has an error class; otherwise it says that the routine cannot be loaded. */
@SuppressWarnings({"deprecation", "serial"})
class UnknownProcedure extends IllegalArgumentException implements SparkThrowable {
  UnknownProcedure(String message) { super("[ROUTINE_NOT_FOUND] " + message + " SQLSTATE: 42883"); }

  public String getCondition() { return "ROUTINE_NOT_FOUND"; }
  public String getErrorClass() { return getCondition(); }
  public String getSqlState() { return "42883"; }
}
