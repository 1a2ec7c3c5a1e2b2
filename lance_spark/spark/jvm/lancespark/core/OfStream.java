package lancespark.core;

import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What a stream reads as a table of a path with these options. */
public interface OfStream {
  CaseInsensitiveStringMap options();
}
