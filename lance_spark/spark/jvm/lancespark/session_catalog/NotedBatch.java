package lancespark.session_catalog;

import lancespark.core.Session;
import lancespark.source.DriverBatch;
import lancespark.source.SessionEntry;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

class NotedBatch extends DriverBatch {
  private final Identifier id;

  NotedBatch(BatchWrite inner, Identifier id) {
    super(inner);
    this.id = id;
  }

  public void commit(WriterCommitMessage[] messages) {
    inner.commit(messages);
    try {
      Session.active().sessionState().catalog().externalCatalog().alterTable(Entry.written(SessionEntry.of(id)));
    } catch (Throwable t) {
      Session.LOG.warn("the rows of " + id + " are written; if its files are deleted by other means, it will be read as empty", t);
    }
  }
}
