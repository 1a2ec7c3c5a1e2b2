package lance;

import lancespark.source.FormatSource;

/**
 * The format "lance" as a class, which Spark finds by this name in every thread. A Python source alone it finds only where a session is active,
 * and none is in a plain thread of Python.
 */
public class DefaultSource extends FormatSource {
  public DefaultSource() {}
}
