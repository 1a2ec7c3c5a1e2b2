package lancespark.core;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;

/** What a feature adds to sessions. */
public interface Addition {
  /** To those that are built with these extensions. */
  void addTo(SparkSessionExtensions extensions);

  /** To one that is built. */
  void addTo(SparkSession session);
}
