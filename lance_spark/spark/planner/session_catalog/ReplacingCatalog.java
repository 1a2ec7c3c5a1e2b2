package lancespark;

import java.util.*;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType$;
import org.apache.spark.sql.catalyst.catalog.CatalogUtils$;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalog;
import org.apache.spark.sql.connector.catalog.*;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.write.*;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWrite;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The session catalog for a statement that replaces a lance table. Because it is a StagingTableCatalog, Spark replaces the table atomically
 * instead of dropping it first.
 */
class ReplacingCatalog extends DelegatingCatalogExtension implements StagingTableCatalog {
  ReplacingCatalog(CatalogPlugin session) { setDelegateCatalog(session); }

  public StagedTable stageCreate(Identifier name, Column[] columns, Transform[] partitions, Map properties) {
    throw new UnsupportedOperationException("this catalog only replaces tables");
  }

  public StagedTable stageReplace(Identifier name, Column[] columns, Transform[] partitions, Map properties) {
    return stageCreateOrReplace(name, columns, partitions, properties);
  }

  public StagedTable stageCreateOrReplace(Identifier name, Column[] columns, Transform[] partitions, Map properties) {
    try {
      CatalogTable old = SessionEntry.of(name);
      return new ReplacedTable(old, Entry.of(old, CatalogV2Util.v2ColumnsToStructType(columns), properties), columns.length > 0);
    } catch (Exception e) {
      Platform.throwException(e);
      return null;
    }
  }
}

/** The entry of a table in the session catalog. */
class Entry {
  /** The entry that the statement declares. The table keeps its location unless the statement has one. */
  static CatalogTable of(CatalogTable old, StructType schema, Map properties) {
    String location = (String) properties.get(TableCatalog.PROP_LOCATION);
    scala.Product storage = SparkInternals.with(old.storage(), "properties", immutable(options(old, properties)));
    if (location != null) storage = SparkInternals.with(storage, "locationUri", new scala.Some(CatalogUtils$.MODULE$.stringToURI(location)));
    scala.Product table = SparkInternals.with(old, "schema", schema);
    if (location != null) {
      boolean isManaged = "true".equalsIgnoreCase((String) properties.get(TableCatalog.PROP_IS_MANAGED_LOCATION));
      table = SparkInternals.with(table, "tableType", isManaged ? CatalogTableType$.MODULE$.MANAGED() : CatalogTableType$.MODULE$.EXTERNAL());
    }
    table = SparkInternals.with(table, "storage", storage);
    table = SparkInternals.with(table, "properties", immutable(properties));
    table = SparkInternals.with(table, "comment", scala.Option.apply(properties.get(TableCatalog.PROP_COMMENT)));
    table = SparkInternals.with(table, "collation", scala.Option.apply(properties.get(TableCatalog.PROP_COLLATION)));
    return (CatalogTable) SparkInternals.with(table, "stats", scala.Option.empty());
  }

  /** The statement's options. A table that keeps its location also keeps its storage options. */
  private static Map options(CatalogTable old, Map properties) {
    Map options = new TreeMap(String.CASE_INSENSITIVE_ORDER);
    boolean stays = properties.get(TableCatalog.PROP_LOCATION) == null;
    Iterator it = CollectionConverters.asJava(CatalogTables.hidden(old.storage().properties())).entrySet().iterator();
    while (it.hasNext() && stays) {
      Map.Entry option = (Map.Entry) it.next();
      if (((String) option.getKey()).toLowerCase(Locale.ROOT).startsWith(CatalogTables.SETTING)) options.put(option.getKey(), option.getValue());
    }
    it = properties.entrySet().iterator();
    while (it.hasNext()) {
      Map.Entry property = (Map.Entry) it.next();
      String key = (String) property.getKey();
      if (key.startsWith(TableCatalog.OPTION_PREFIX)) options.put(key.substring(TableCatalog.OPTION_PREFIX.length()), property.getValue());
    }
    options.remove("path");
    return options;
  }

  static Path path(CatalogTable entry) { return new Path(entry.location()); }

  private static Object immutable(Map map) { return scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(map)); }

  /** The entry with the note that the table has had a version. */
  static CatalogTable written(CatalogTable entry) {
    Map properties = new HashMap(CollectionConverters.asJava(entry.properties()));
    properties.put(SessionEntry.WRITTEN, "true");
    return (CatalogTable) SparkInternals.with(entry, "properties", immutable(properties));
  }

  static void store(CatalogTable entry) {
    ExternalCatalog catalog = LancePlanner.session().sessionState().catalog().externalCatalog();
    catalog.alterTable(entry);
    // Hive's catalog ignores the columns of alterTable.
    catalog.alterTableDataSchema((String) entry.identifier().database().get(), entry.identifier().table(), entry.schema());
  }
}

/**
 * A lance table that is being replaced: one commit overwrites the rows of the existing table, which keeps its old versions.
 *
 * The catalog entry and the table cannot change atomically. The entry changes just before the commit, and is restored if the commit fails.
 */
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

  public String name() { return LancePlanner.SOURCE; }
  public StructType schema() { return entry.schema(); }
  public Set capabilities() { return EnumSet.of(TableCapability.BATCH_WRITE, TableCapability.TRUNCATE, TableCapability.ACCEPT_ANY_SCHEMA); }
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) { return new ReplacingWrite(this, info); }

  /** Spark's overwriting write to a Python source. */
  Write write(LogicalWriteInfo info) {
    LogicalWriteInfo full = new WriteInfo(info, SessionEntry.options(entry), SessionEntry.declared(info.schema(), schema()));
    return new PythonWrite(Source.unopened(), LancePlanner.SOURCE, full, true);
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
      LancePlanner.LOG.warn("the table " + entry.identifier() + " has moved to " + Entry.path(entry) + "; its files at " + Entry.path(old) + " were not deleted");
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

/** A write whose commit replaces the table. */
class ReplacingWrite implements WriteBuilder, SupportsTruncate, Write {
  private final ReplacedTable table;
  private final Write inner;

  ReplacingWrite(ReplacedTable table, LogicalWriteInfo info) {
    this.table = table;
    this.inner = table.write(info);
  }

  public WriteBuilder truncate() { return this; }
  public Write build() { return this; }
  public String description() { return inner.description(); }
  public String toString() { return inner.toString(); }
  public CustomMetric[] supportedCustomMetrics() { return inner.supportedCustomMetrics(); }
  public BatchWrite toBatch() { return new ReplacingBatch(table, inner.toBatch()); }
}

class ReplacingBatch extends DriverBatch {
  private final ReplacedTable table;

  ReplacingBatch(ReplacedTable table, BatchWrite inner) {
    super(inner);
    this.table = table;
  }

  public void commit(WriterCommitMessage[] messages) { table.commit(inner, messages); }
}
