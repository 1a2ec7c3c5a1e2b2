package lancespark.session_catalog;

import lancespark.core.EntryCatalog;
import lancespark.core.Session;
import lancespark.source.DriverBatch;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** Notes its commit in the entry of the table and, if the columns of the table may have changed, gives the entry these. */
class NotedBatch extends DriverBatch {
  private final Identifier id;
  private final boolean changesColumns;

  NotedBatch(BatchWrite inner, Identifier id, boolean changesColumns) {
    super(inner);
    this.id = id;
    this.changesColumns = changesColumns;
  }

  public void commit(WriterCommitMessage[] messages) {
    inner.commit(messages);
    try {
      EntryCatalog entries = changesColumns ? EntryCatalog.known() : null;
      if (entries == null) Entry.note(id);
      else entries.invalidateTable(id);
    } catch (Throwable t) {
      Session.LOG.warn("the rows of " + id + " are written, but not noted in Spark's catalog: it may lack new columns, and if the files are deleted "
          + "by other means, the table will be read as empty", t);
    }
  }
}
