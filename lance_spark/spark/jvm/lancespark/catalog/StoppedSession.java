package lancespark.catalog;

import org.apache.spark.SparkThrowable;

/** That a procedure is loaded in a session that was stopped. Spark hides the error in its own, and fails to show that one, unless it has an error class. */
@SuppressWarnings({"deprecation", "serial"})
class StoppedSession extends UnsupportedOperationException implements SparkThrowable {
  StoppedSession(String message) { super(message); }

  public String getCondition() { return "UNSUPPORTED_FEATURE"; }
  public String getErrorClass() { return getCondition(); }
  public String getSqlState() { return "0A000"; }
}
