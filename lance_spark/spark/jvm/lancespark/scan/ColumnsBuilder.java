package lancespark.scan;

import java.util.*;
import lancespark.core.Plugins;
import lancespark.source.Source;
import org.apache.spark.sql.connector.expressions.*;
import org.apache.spark.sql.connector.expressions.aggregate.*;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.types.*;

/** Accepts only columns. */
public class ColumnsBuilder implements ScanBuilder, SupportsPushDownRequiredColumns {
  final Source source;
  public final Request request = new Request();
  StructType schema;

  public ColumnsBuilder(Source source) {
    this.source = source;
    this.schema = source.table.schema();
  }

  public void pruneColumns(StructType required) {
    if (request.aggregates != null) return;
    schema = withForgotten(required);
    StructField[] all = source.table.schema().fields();
    if (required.fields().length > 0 || all.length == 0) return;
    // Without columns, Spark 4.0 loses the number of rows: request the narrowest column and only the number of its rows.
    StructField narrowest = all[0];
    for (int i = 1; i < all.length; i++) if (all[i].dataType().defaultSize() < narrowest.dataType().defaultSize()) narrowest = all[i];
    schema = new StructType(new StructField[] { narrowest });
    request.rowsOnly = true;
  }

  /** Spark's pruning takes names such as I with and without a dot for one name, and forgets one of the two columns. */
  private StructType withForgotten(StructType required) {
    StructType found = required;
    StructField[] all = source.table.schema().fields(), wanted = required.fields();
    for (int i = 0; i < all.length; i++) {
      boolean isAlike = false, isWanted = false;
      for (int k = 0; k < wanted.length; k++) {
        isWanted = isWanted || wanted[k].name().equals(all[i].name());
        isAlike = isAlike || wanted[k].name().equalsIgnoreCase(all[i].name())
            && !wanted[k].name().toLowerCase(Locale.ROOT).equals(all[i].name().toLowerCase(Locale.ROOT));
      }
      if (isAlike && !isWanted) found = found.add(all[i]);
    }
    return found;
  }

  public Scan build() {
    SearchPlan search = source.can("found") ? (SearchPlan) Plugins.hook(SearchPlan.class) : null;
    Scan found = search == null ? null : search.scan(source, schema);
    return found == null ? new LanceScan(source, schema, request) : found;
  }
}
