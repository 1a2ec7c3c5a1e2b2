package lancespark.search;

import java.util.*;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table for the tasks of a search: a scan of it runs them. */
@SuppressWarnings({"rawtypes", "unchecked", "deprecation"})
class TasksTable implements Table, SupportsRead, ScanBuilder, Scan {
  private final Batch tasks;
  private final StructType schema;

  TasksTable(Batch tasks, StructType schema) {
    this.tasks = tasks;
    this.schema = schema;
  }

  public String name() { return "tasks of a lance search"; }
  public StructType schema() { return schema; }
  public Set capabilities() { return EnumSet.of(TableCapability.BATCH_READ); }
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) { return this; }
  public Scan build() { return this; }
  public StructType readSchema() { return schema; }
  public String description() { return name(); }
  public Batch toBatch() { return tasks; }
}
