package lancespark.table;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.*;
import lancespark.protocol.Instructions;
import lancespark.protocol.Json;
import lancespark.protocol.Names;
import lancespark.scan.PlanJson;
import lancespark.source.RowsInfo;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A write that may replace all rows, or those that fulfil conditions. */
@SuppressWarnings({"rawtypes", "unchecked"})
public class OverwriteBuilder implements SupportsOverwriteV2, SupportsDynamicOverwrite {
  private final LanceTable table;
  private final LogicalWriteInfo info;
  private Predicate[] conditions = null;
  private boolean isTruncating = false, isDynamic = false;

  OverwriteBuilder(LanceTable table, LogicalWriteInfo info) {
    this.table = table;
    this.info = info;
  }

  public WriteBuilder truncate() {
    isTruncating = true;
    return this;
  }

  public WriteBuilder overwriteDynamicPartitions() {
    isDynamic = true;
    return truncate();
  }

  public boolean canOverwrite(Predicate[] predicates) { return json(predicates) != null; }

  public WriteBuilder overwrite(Predicate[] predicates) {
    conditions = predicates;
    return this;
  }

  public Write build() { return table.noting(planned(), info); }

  private Write planned() {
    if (conditions == null && !isTruncating) return table.plainBuilder(info).build();
    Map options = new HashMap(info.options().asCaseSensitiveMap());
    if (conditions != null) Instructions.put(options, Instructions.OVERWRITE, json(conditions));
    else if (isDynamic) options.put(Names.OVERWRITE_MODE, "dynamic");
    // INSERT OVERWRITE replaces rows. The statements that replace columns, too, do not come here.
    else if (!info.options().containsKey(Names.OVERWRITE_SCHEMA)) options.put(Names.OVERWRITE_SCHEMA, "false");
    WriteBuilder builder = table.plainBuilder(new RowsInfo(new CaseInsensitiveStringMap(options), info.schema(), info.queryId()));
    return (conditions == null ? ((SupportsTruncate) builder).truncate() : builder).build();
  }

  /** The conditions, which must all hold; null if Python cannot decide one of them exactly. */
  private ArrayNode json(Predicate[] predicates) {
    ArrayNode all = Json.array();
    for (int i = 0; i < predicates.length; i++) {
      PlanJson json = new PlanJson(table.schema());
      JsonNode condition = json.expression(predicates[i]);
      if (condition == null || !json.isExact) return null;
      all.add(condition);
    }
    return all;
  }
}
