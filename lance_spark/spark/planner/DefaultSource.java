package lance;

import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;

/**
 * The format "lance" as a class, which Spark finds by this name in every thread. A Python source alone it finds only where a session is active,
 * and none is in a plain thread of Python.
 */
public class DefaultSource extends PythonDataSourceV2 {
  public DefaultSource() {}
}
