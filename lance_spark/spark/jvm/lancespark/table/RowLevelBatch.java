package lancespark.table;

import lancespark.source.DriverBatch;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** Remembers the command after its commit, so that its version can be found, and has the table opened again, so that the version is seen. */
class RowLevelBatch extends DriverBatch {
  private final RowLevelWrite write;

  RowLevelBatch(RowLevelWrite write, BatchWrite inner) {
    super(inner);
    this.write = write;
  }

  public void commit(WriterCommitMessage[] messages) {
    inner.commit(messages);
    LastChange.set(write);
    write.table.forgetVersion();
    write.table.noteCommit(write.changesColumns());
  }
}
