package lancespark.session_catalog;

import lancespark.source.DriverBatch;
import org.apache.spark.sql.connector.catalog.*;
import org.apache.spark.sql.connector.write.*;

class ReplacingBatch extends DriverBatch {
  private final ReplacedTable table;

  ReplacingBatch(ReplacedTable table, BatchWrite inner) {
    super(inner);
    this.table = table;
  }

  public void commit(WriterCommitMessage[] messages) { table.commit(inner, messages); }
}
