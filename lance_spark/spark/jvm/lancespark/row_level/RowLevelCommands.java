package lancespark.row_level;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.core.Plugins;
import lancespark.core.SparkInternals;
import lancespark.core.Walk;
import lancespark.protocol.Json;
import lancespark.source.SessionEntry;
import lancespark.source.Source;
import lancespark.table.LanceOperation;
import lancespark.table.LanceTable;
import lancespark.table.RowLevelWrite;
import lancespark.table.TakingAnyRows;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.AppendData$;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The optimizer rule that writes the delta rows of DELETE, UPDATE and MERGE INTO with Python.
 *
 * Spark rewrites these commands to a query for delta rows, with an operation and a row address in each. Spark's writer of delta rows runs Java
 * code on the executors. Therefore this rule appends the rows by Spark's writer for Python sources instead: lance_spark.spark.write.delta.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
public class RowLevelCommands extends Rule {
  public RowLevelCommands() {}

  public String ruleName() { return "lance_spark.RowLevelCommands"; }

  /** An error fails the command: without this rule it cannot run. */
  public TreeNode apply(TreeNode plan) {
    // Spark 4.0 rewrites commands after the rules of the analyzer.
    return new Commands().in(Plugins.analyzed((LogicalPlan) plan));
  }

  static class Commands extends Walk {
    public LogicalPlan changed(LogicalPlan plan) {
      if (plan instanceof WriteDelta) return append((WriteDelta) plan);
      boolean isInsertion = plan instanceof AppendData || plan.getClass().getSimpleName().equals("InsertOnlyMerge");
      return isInsertion ? insertion((V2WriteCommand) plan) : plan;
    }
  }

  /**
   * The append of the delta rows. This is done before Spark plans the write: then Spark would scan the table a second time, in order to find the
   * groups of rows that change.
   */
  private static LogicalPlan append(WriteDelta delta) {
    Table target = ((DataSourceV2Relation) delta.productElement(0)).table();  // Janino finds two methods table()
    if (!(target instanceof RowLevelOperationTable) || !(((RowLevelOperationTable) target).operation() instanceof LanceOperation)) return delta;
    LanceOperation operation = (LanceOperation) ((RowLevelOperationTable) target).operation();
    boolean isDelete = operation.command() == RowLevelOperation.Command.DELETE;
    // Spark truncates the table instead.
    if (isDelete && delta.write().isEmpty() && delta.condition().sql().equals("true")) return delta;
    LanceTable table = operation.table;
    DataSourceV2Relation relation = (DataSourceV2Relation) delta.originalTable();
    Source source = table.source(relation.options());
    DeltaRows rows = new DeltaRows(delta.query(), relation.output());
    ObjectNode command = command(operation.command().toString(), delta.condition(), table, source);
    command.put("repeats", mayRepeatDeletes(delta.query())).set("assigned", rows.assigned);
    Object anyRows = SparkInternals.with(relation, "table", new TakingAnyRows(table));
    return append(anyRows, rows.query, new RowLevelWrite(table, source, command, rows.query.schema()));
  }

  private static ObjectNode command(String kind, Expression condition, LanceTable table, Source source) {
    ObjectNode command = Json.object().put("kind", kind).put("condition", condition.sql());
    StructType declared = SessionEntry.declared(table.schema(), table.schema());
    return source.noteVersion(command).put("declared", declared.json());
  }

  /** Spark rewrites a MERGE that only inserts rows: it appends the rows of the source that match none of the table. */
  private static LogicalPlan insertion(V2WriteCommand append) {
    boolean isPlanned = !((scala.Option) SparkInternals.argument((scala.Product) append, "write")).isEmpty();
    if (isPlanned || !(append.table() instanceof DataSourceV2Relation)) return (LogicalPlan) append;
    DataSourceV2Relation relation = (DataSourceV2Relation) append.table();
    if (relation.table() instanceof TakingAnyRows) return (LogicalPlan) append;
    Expression condition = relation.table() instanceof LanceTable ? unmatched(append.query(), (LanceTable) relation.table()) : null;
    if (condition == null) return (LogicalPlan) append;
    LanceTable table = (LanceTable) relation.table();
    Source source = table.source(relation.options());
    ObjectNode command = command("MERGE", condition, table, source);
    return append(relation, append.query(), new RowLevelWrite(table, source, command, append.query().schema()));
  }

  /** The condition of an anti join with the table itself, the same object; null if there is none. */
  private static Expression unmatched(LogicalPlan query, LanceTable table) {
    if (query instanceof Join && ((Join) query).joinType().sql().equals("LEFT ANTI") && !((Join) query).condition().isEmpty()) {
      for (Object leaf : CollectionConverters.asJava(((Join) query).right().collectLeaves())) {
        boolean isTable = leaf instanceof DataSourceV2Relation && ((DataSourceV2Relation) leaf).table().equals(table);
        if (isTable) return (Expression) ((Join) query).condition().get();
      }
    }
    for (LogicalPlan child : CollectionConverters.asJava(query.children())) {
      Expression condition = unmatched(child, table);
      if (condition != null) return condition;
    }
    return null;
  }

  /** Spark checks that no row of the table is changed twice, unless a MERGE only deletes the rows that match. */
  private static boolean mayRepeatDeletes(LogicalPlan query) {
    if (query instanceof MergeRows) return !((MergeRows) query).checkCardinality();
    for (LogicalPlan child : CollectionConverters.asJava(query.children())) if (mayRepeatDeletes(child)) return true;
    return false;
  }

  /** The append of rows that are written by `write`, in the order of the columns. */
  private static LogicalPlan append(Object relation, LogicalPlan query, RowLevelWrite write) {
    Object[] given = { relation, query, scala.collection.immutable.Map$.MODULE$.empty() };
    Object append = SparkInternals.made(AppendData$.MODULE$, "byPosition", given);
    return (LogicalPlan) SparkInternals.with((scala.Product) append, "write", new scala.Some(write));
  }
}
