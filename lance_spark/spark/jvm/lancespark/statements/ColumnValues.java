package lancespark.statements;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import lancespark.core.SparkInternals;
import lancespark.protocol.Json;
import lancespark.source.Source;
import lancespark.table.LanceTable;
import lancespark.table.RowLevelWrite;
import lancespark.table.TakingAnyRows;
import org.apache.spark.sql.catalyst.plans.logical.AppendData$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Values of columns, which a query finds with the addresses of their rows: ADD COLUMNS a FROM view. See lance_spark.spark.write.columns. */
@SuppressWarnings("unchecked")
class ColumnValues implements WriteBuilder {
  private final Write write;

  private ColumnValues(Write write) { this.write = write; }

  public Write build() { return write; }

  /** The append of the rows of a query, which is not analysed yet. */
  static LogicalPlan append(DataSourceV2Relation relation, LogicalPlan query, JsonNode meaning) {
    Object target = SparkInternals.with(relation, "table", new TakingColumns((LanceTable) relation.table(), relation.options(), meaning));
    Object[] given = { target, query, scala.collection.immutable.Map$.MODULE$.empty() };
    return (LogicalPlan) SparkInternals.made(AppendData$.MODULE$, "byPosition", given);
  }

  /** The table as the target. Spark asks it for the write when it knows what it writes. */
  static class TakingColumns extends TakingAnyRows {
    private final LanceTable table;
    private final CaseInsensitiveStringMap options;
    private final JsonNode meaning;

    TakingColumns(LanceTable table, CaseInsensitiveStringMap options, JsonNode meaning) {
      super(table);
      this.table = table;
      this.options = options;
      this.meaning = meaning;
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      Source source = table.source(options);
      ObjectNode command = Json.object().put("kind", Json.at(meaning, "kind").asText()).put("condition", "true");
      source.noteVersion(command).put("declared", table.schema().json()).set("assigned", Json.at(meaning, "assigned"));
      return new ColumnValues(new RowLevelWrite(table, source, command, info.schema()));
    }
  }
}
