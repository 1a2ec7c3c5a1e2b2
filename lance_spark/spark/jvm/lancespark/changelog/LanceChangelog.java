package lancespark.changelog;

import lancespark.core.OfStream;
import lancespark.table.LanceTable;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The changes of a table, complete: Spark has nothing to remove, to pair or to collapse. */
class LanceChangelog implements Changelog, OfStream {
  private final String name;
  private final CaseInsensitiveStringMap options;
  private LanceTable opened = null;

  LanceChangelog(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    this.options = options;
  }

  public String name() { return name; }
  public CaseInsensitiveStringMap options() { return options; }
  public Column[] columns() { return table().columns(); }
  public boolean containsCarryoverRows() { return false; }
  public boolean containsIntermediateChanges() { return false; }
  public boolean representsUpdateAsDeleteAndInsert() { return false; }
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) { return table().newScanBuilder(options); }

  private synchronized LanceTable table() {
    if (opened == null) opened = LanceTable.reopened(options);
    return opened;
  }
}
