package lancespark.changelog;

import java.util.*;
import lancespark.catalog.NamedTable;
import lancespark.catalog.NamespaceCatalog;
import lancespark.protocol.Names;
import lancespark.table.LanceTable;
import org.apache.spark.sql.connector.catalog.Changelog;
import org.apache.spark.sql.connector.catalog.ChangelogContext;
import org.apache.spark.sql.connector.catalog.ChangelogRange;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A catalog with what Spark 4.2 and newer ask of one. Its tables have changes in Spark's own words, `SELECT * FROM t CHANGES FROM VERSION 3`: the
 * change feed with other options. New tables have constraints, or the columns of another table.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
public class ChangesCatalog extends NamespaceCatalog {
  /** What Spark says in the context, among the options too. */
  private static final Set IN_CONTEXT = new TreeSet(String.CASE_INSENSITIVE_ORDER);

  static {
    IN_CONTEXT.addAll(Arrays.asList(new String[] { Names.STARTING_VERSION, Names.ENDING_VERSION, Names.STARTING_TIMESTAMP, Names.ENDING_TIMESTAMP,
        "startingBoundInclusive", "endingBoundInclusive", "deduplicationMode", Names.COMPUTE_UPDATES }));
  }

  public ChangesCatalog() {}

  public Set capabilities() {
    Set all = EnumSet.copyOf(super.capabilities());
    all.add(TableCatalogCapability.SUPPORT_TABLE_CONSTRAINT);
    return all;
  }

  public Table createTable(Identifier id, TableInfo info) { return createTable(id, info.columns(), info.partitions(), Constraints.properties(info)); }

  /** The columns are those of the other table, with its constraints if it is a lance table of a catalog. */
  public Table createTableLike(Identifier id, TableInfo info, Table source) {
    Map properties = Constraints.properties(info);
    if (source instanceof NamedTable) {
      for (Map.Entry property : ((NamedTable) source).properties().entrySet()) {
        if (Constraints.isOne((String) property.getKey())) properties.put(property.getKey(), property.getValue());
      }
    }
    Column[] columns = info.columns().length > 0 ? info.columns() : source.columns();
    return createTable(id, columns, info.partitions(), properties);
  }

  public StagedTable stageCreate(Identifier id, TableInfo info) {
    return stageCreate(id, info.columns(), info.partitions(), Constraints.properties(info));
  }

  public StagedTable stageReplace(Identifier id, TableInfo info) {
    return stageReplace(id, info.columns(), info.partitions(), Constraints.properties(info));
  }

  public StagedTable stageCreateOrReplace(Identifier id, TableInfo info) {
    return stageCreateOrReplace(id, info.columns(), info.partitions(), Constraints.properties(info));
  }

  public Changelog loadChangelog(Identifier id, ChangelogContext context, CaseInsensitiveStringMap given) {
    Table table = loadTable(id);
    if (!(table instanceof LanceTable)) throw new UnsupportedOperationException(id + " is a table about a table, which has no changes");
    Map options = new HashMap(((LanceTable) table).source(CaseInsensitiveStringMap.empty()).options.asCaseSensitiveMap());
    for (Map.Entry option : given.asCaseSensitiveMap().entrySet()) {
      if (!IN_CONTEXT.contains(option.getKey())) options.put(option.getKey(), option.getValue());
    }
    options.put(Names.CHANGE_FEED, "true");
    options.put(Names.COMPUTE_UPDATES, "" + context.computeUpdates());
    if (context.deduplicationMode() == ChangelogContext.DeduplicationMode.NET_CHANGES) options.put(Names.NET_CHANGES, "true");
    addRange(context.range(), options);
    return new LanceChangelog(table.name(), new CaseInsensitiveStringMap(options));
  }

  /** The bounds as those of the change feed, which are inclusive. A time has microseconds. */
  private static void addRange(ChangelogRange range, Map options) {
    int after = range.startingBoundInclusive() ? 0 : 1, before = range.endingBoundInclusive() ? 0 : 1;
    if (range instanceof ChangelogRange.VersionRange) {
      ChangelogRange.VersionRange versions = (ChangelogRange.VersionRange) range;
      options.put(Names.STARTING_VERSION, moved(versions.startingVersion(), after));
      if (versions.endingVersion().isPresent()) options.put(Names.ENDING_VERSION, moved((String) versions.endingVersion().get(), -before));
    }
    if (range instanceof ChangelogRange.TimestampRange) {
      ChangelogRange.TimestampRange times = (ChangelogRange.TimestampRange) range;
      options.put(Names.STARTING_TIMESTAMP, time(times.startingTimestamp() + after));
      if (times.endingTimestamp().isPresent()) options.put(Names.ENDING_TIMESTAMP, time(((Long) times.endingTimestamp().get()).longValue() - before));
    }
  }

  private static String moved(String version, int by) {
    try {
      return "" + (Long.parseLong(version.trim()) + by);
    } catch (NumberFormatException e) {
      throw new IllegalArgumentException("CHANGES takes the numbers of versions, not " + version);
    }
  }

  private static String time(long micros) {
    return java.time.Instant.ofEpochSecond(Math.floorDiv(micros, 1000000L), Math.floorMod(micros, 1000000L) * 1000).toString();
  }
}
