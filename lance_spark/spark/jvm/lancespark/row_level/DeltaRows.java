package lancespark.row_level;

import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.*;
import lancespark.core.SparkInternals;
import lancespark.protocol.Json;
import lancespark.protocol.Names;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Pmod;
import org.apache.spark.sql.catalyst.expressions.ShiftRight;
import org.apache.spark.sql.catalyst.expressions.SortOrder$;
import org.apache.spark.sql.catalyst.expressions.XxHash64;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.types.DataTypes;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A query for delta rows. It lists all columns of the table, although updated rows keep most of their values. Those columns are removed from the
 * query: Spark then does not read them, and the writers take them from the table.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
class DeltaRows {
  /** A value of the column __row_operation. */
  private static final int UPDATED = 2;
  private static final int INSERT_GROUPS = 64;
  private static final String[] INSTRUCTIONS = { "matchedInstructions", "notMatchedInstructions", "notMatchedBySourceInstructions" };

  LogicalPlan query;
  /** The names of the columns with new values. */
  final ArrayNode assigned = Json.array();
  private final List columns;
  private final Set<Integer> kept = new HashSet<>();

  /** `columns` are the table's, as attributes. */
  DeltaRows(LogicalPlan query, scala.collection.immutable.Seq columns) {
    this.query = query;
    this.columns = CollectionConverters.asJava(columns);
    if (query instanceof Project) removeFromUpdate((Project) query);
    if (query instanceof MergeRows) removeFromMerge((MergeRows) query);
    for (int i = 0; i < this.columns.size(); i++) if (!kept.contains(Integer.valueOf(i))) assigned.add(column(i).name());
    if (!kept.isEmpty() && isScattered()) this.query = inOrder();
  }

  private Attribute column(int i) { return (Attribute) this.columns.get(i); }

  /** An UPDATE selects the operation, the values of all columns, and the address. */
  private void removeFromUpdate(Project project) {
    List all = CollectionConverters.asJava(project.projectList()), rest = new ArrayList();
    if (all.size() < columns.size() + 2) return;
    for (int i = 0; i < all.size(); i++) {
      boolean isValue = i > 0 && i <= columns.size();
      if (isValue && isOld(i - 1, all.get(i))) kept.add(Integer.valueOf(i - 1));
      else rest.add(all.get(i));
    }
    query = new Project(CollectionConverters.asScala(rest).toSeq(), project.child());
  }

  /** The clauses of a MERGE give different values. A column is kept if none of those that update assigns it; others may insert it. */
  private void removeFromMerge(MergeRows merge) {
    boolean updates = false;
    for (int i = 0; i < columns.size(); i++) kept.add(Integer.valueOf(i));
    for (int k = 0; k < INSTRUCTIONS.length; k++) {
      for (Object instruction : CollectionConverters.asJava((scala.collection.immutable.Seq<?>) SparkInternals.argument(merge, INSTRUCTIONS[k]))) {
        List values = updated(instruction);
        updates = updates || values != null;
        for (int i = 0; values != null && i < columns.size(); i++) if (!isOld(i, values.get(i + 1))) kept.remove(Integer.valueOf(i));
      }
    }
    if (!updates) kept.clear();
    if (!kept.isEmpty()) query = withoutKept(merge);
  }

  private LogicalPlan withoutKept(MergeRows merge) {
    Object plan = merge;
    for (int k = 0; k < INSTRUCTIONS.length; k++) {
      List instructions = new ArrayList(CollectionConverters.asJava((scala.collection.immutable.Seq) SparkInternals.argument(merge, INSTRUCTIONS[k])));
      for (int n = 0; n < instructions.size(); n++) {
        List values = updated(instructions.get(n));
        if (values == null) continue;
        List rest = new ArrayList(values);
        for (Integer i : kept) rest.set(i.intValue() + 1, new Literal(null, column(i.intValue()).dataType()));
        instructions.set(n, SparkInternals.with((scala.Product) instructions.get(n), "output", CollectionConverters.asScala(rest).toSeq()));
      }
      plan = SparkInternals.with((scala.Product) plan, INSTRUCTIONS[k], CollectionConverters.asScala(instructions).toSeq());
    }
    List output = new ArrayList(CollectionConverters.asJava(merge.output()));
    for (Integer i : kept) output.set(i.intValue() + 1, ((Attribute) output.get(i.intValue() + 1)).withNullability(true));
    return (LogicalPlan) SparkInternals.with((scala.Product) plan, "output", CollectionConverters.asScala(output).toSeq());
  }

  /** The operation, values and address of an instruction that updates rows; null for others. */
  private List updated(Object instruction) {
    if (!instruction.getClass().getSimpleName().equals("Keep")) return null;
    List values = CollectionConverters.asJava((scala.collection.immutable.Seq) SparkInternals.argument((scala.Product) instruction, "output"));
    boolean isUpdate = values.size() >= columns.size() + 2 && values.get(0) instanceof Literal
        && Integer.valueOf(UPDATED).equals(((Literal) values.get(0)).value());
    return isUpdate ? values : null;
  }

  /** True if an expression is the column's old value. */
  private boolean isOld(int i, Object value) {
    Object plain = value instanceof Alias ? (Object) ((Alias) value).child() : value;
    return plain instanceof AttributeReference && ((NamedExpression) plain).exprId().equals(column(i).exprId());
  }

  /** True unless the query is a scan of the table alone, whose rows are in order. */
  private boolean isScattered() { return query.collectLeaves().size() > 1 || !query.subqueriesAll().isEmpty(); }

  /** The rows sorted by address, with those of one fragment in one task: so each column of it is read once. Inserted rows spread over all tasks. */
  private LogicalPlan inOrder() {
    List output = CollectionConverters.asJava(query.output()), hashed = new ArrayList();
    Attribute address = null;
    for (int i = 0; i < output.size(); i++) {
      Attribute attribute = (Attribute) output.get(i);
      if (attribute.name().equals(Names.ROW_ADDRESS)) address = attribute;
      else if (isHashable(attribute)) hashed.add(attribute);
    }
    if (address == null) return query;
    Expression group = new Pmod(new XxHash64(CollectionConverters.asScala(hashed).toSeq()), new Literal(Long.valueOf(INSERT_GROUPS), DataTypes.LongType));
    Expression fragment = new ShiftRight(address, new Literal(Integer.valueOf(32), DataTypes.IntegerType));
    List parts = Arrays.asList(new Object[] { fragment, group });
    Object key = new Coalesce(CollectionConverters.asScala(parts).toSeq());
    LogicalPlan apart = new RepartitionByExpression(seq(key), query, scala.Option.empty(), scala.Option.empty());
    Object order = SortOrder$.MODULE$.apply(address, Ascending$.MODULE$, (scala.collection.immutable.Seq) scala.collection.immutable.Nil$.MODULE$);
    return new Sort(seq(order), false, apart, scala.Option.empty());
  }

  private static scala.collection.immutable.Seq seq(Object element) {
    return CollectionConverters.asScala(Collections.singletonList(element)).toSeq();
  }

  /** Spark hashes no maps and no variants. */
  private static boolean isHashable(Attribute attribute) {
    String type = attribute.dataType().catalogString();
    return !type.contains("map<") && !type.contains("variant");
  }
}
