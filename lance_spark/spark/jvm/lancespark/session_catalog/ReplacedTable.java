package lancespark.session_catalog;

import java.util.*;
import lancespark.core.Session;
import lancespark.core.SparkInternals;
import lancespark.protocol.Names;
import lancespark.source.NoRows;
import lancespark.source.SessionEntry;
import lancespark.source.Source;
import lancespark.source.WriteInfo;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType$;
import org.apache.spark.sql.connector.catalog.*;
import org.apache.spark.sql.connector.write.*;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWrite;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;

/**
 * A lance table that is being replaced: one commit overwrites the rows of the existing table, which keeps its old versions.
 *
 * The catalog entry and the table cannot change atomically. The entry changes just before the commit, and is restored if the commit fails.
 */
@SuppressWarnings({"rawtypes", "unchecked", "deprecation"})
class ReplacedTable implements StagedTable, SupportsWrite {
  private final CatalogTable old, entry;
  private final boolean hasColumns, isMoved;
  private boolean isCommitted = false;

  /** `hasColumns`: the statement declares columns or has a query. */
  ReplacedTable(CatalogTable old, CatalogTable entry, boolean hasColumns) {
    this.old = old;
    this.entry = entry;
    this.hasColumns = hasColumns;
    this.isMoved = !Entry.path(old).equals(Entry.path(entry));
  }

  public String name() { return Names.FORMAT; }
  public StructType schema() { return entry.schema(); }
  public Set capabilities() { return EnumSet.of(TableCapability.BATCH_WRITE, TableCapability.TRUNCATE, TableCapability.ACCEPT_ANY_SCHEMA); }
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) { return new ReplacingWrite(this, info); }

  /** Spark's overwriting write to a Python source. */
  Write write(LogicalWriteInfo info) {
    LogicalWriteInfo full = new WriteInfo(info, SessionEntry.options(entry), SessionEntry.declared(info.schema(), schema()));
    return new PythonWrite(Source.unopened(), Names.FORMAT, full, true);
  }

  /** Synchronized, so that the last commit and the last entry come from the same statement. */
  void commit(BatchWrite batch, WriterCommitMessage[] messages) {
    synchronized (ReplacedTable.class) {
      boolean isStored = false;
      try {
        Entry.store(Entry.written(entry));
        isStored = true;
        batch.commit(messages);
        isCommitted = true;
      } catch (Throwable t) {
        undo(batch, isStored, t);
        Platform.throwException(t);
      }
    }
  }

  private void undo(BatchWrite batch, boolean isStored, Throwable cause) {
    try {
      // A failed commit has deleted the new files itself. If a task sent no message, Python deletes them here.
      if (!isStored) batch.abort(new WriterCommitMessage[] { null });
    } catch (Throwable t) {
      cause.addSuppressed(t);
    }
    try {
      Entry.store(old);
    } catch (Throwable t) {
      cause.addSuppressed(t);
    }
  }

  /** Called after the commit of a query's rows, or immediately for a statement without a query. */
  public void commitStagedChanges() {
    if (!isCommitted) commitWithoutRows();
    if (isMoved && old.tableType().equals(CatalogTableType$.MODULE$.MANAGED())) {
      // Two different locations may refer to the same folder, so nothing is deleted.
      Session.LOG.warn("the table " + entry.identifier() + " has moved to " + Entry.path(entry) + "; its files at " + Entry.path(old) + " were not deleted");
    }
  }

  /** Empties the table. With another location or without columns, an existing table is only declared, as in CREATE TABLE. */
  private void commitWithoutRows() {
    if (hasColumns && !isMoved) {
      BatchWrite batch = write(new NoRows(schema())).toBatch();
      batch.createBatchWriterFactory(new NoRows(schema()));
      commit(batch, new WriterCommitMessage[0]);
    } else {
      StructType schema = hasColumns ? schema() : Source.unopened().inferSchema(new CaseInsensitiveStringMap(SessionEntry.options(entry)));
      Entry.store((CatalogTable) SparkInternals.with(hasColumns ? entry : Entry.written(entry), "schema", schema));
    }
  }

  public void abortStagedChanges() {}
}
