package lancespark.catalog;

import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;

/** The write of the query's rows. */
class StagedWrite implements WriteBuilder, SupportsTruncate {
  private final Write write;

  StagedWrite(Write write) { this.write = write; }

  public WriteBuilder truncate() { return this; }
  public Write build() { return write; }
}
