package lancespark.nearest;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.core.Session;
import lancespark.protocol.Json;
import lancespark.protocol.Names;
import lancespark.scan.LanceScan;
import lancespark.scan.PlanJson;
import lancespark.table.LanceTable;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.util.V2ExpressionBuilder;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.types.*;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The side of a join that is searched: rows of a lance table. Spark's own optimizer says which: a scan with the columns and conditions that it
 * pushes down, and what is to be computed of the columns.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
class JoinedTable {
  private final LanceScan scan;
  /** The columns that are asked for, expressions of those of the scan. The vectors are not among them. */
  final List expressions;
  /** The columns of the scan that they need. */
  final List columns = new ArrayList();
  private final List path = new LinkedList();

  private JoinedTable(DataSourceV2ScanRelation relation, List expressions, List conditions) {
    if (!(relation.scan() instanceof LanceScan)) throw new Declined("the table is searched or scanned in a way of its own");
    scan = (LanceScan) relation.scan();
    String reason = scan.whyNotJoined();
    if (reason != null) throw new Declined(reason);
    for (int i = 0; i < conditions.size(); i++) check((Expression) conditions.get(i));
    trace((Expression) expressions.get(expressions.size() - 1));
    this.expressions = expressions.subList(0, expressions.size() - 1);
    for (int i = 0; i < relation.output().size(); i++) {
      Attribute column = (Attribute) relation.output().apply(i);
      boolean isNeeded = false;
      for (int k = 0; k < this.expressions.size(); k++) {
        isNeeded = isNeeded || ((Expression) this.expressions.get(k)).references().contains((NamedExpression) column);
      }
      if (isNeeded) columns.add(column);
    }
  }

  static boolean isOfLance(LogicalPlan plan) {
    for (Object leaf : CollectionConverters.asJava(plan.collectLeaves())) {
      if (leaf instanceof DataSourceV2Relation && ((DataSourceV2Relation) leaf).table() instanceof LanceTable) return true;
    }
    return false;
  }

  /** The rows of a plan, whose last column has the vectors. */
  static JoinedTable of(LogicalPlan rows) {
    LogicalPlan analysed = Dataset$.MODULE$.ofRows(Session.active(), rows).queryExecution().analyzed();
    LogicalPlan plan = (LogicalPlan) Session.active().sessionState().optimizer().execute(analysed);
    if (!plan.deterministic()) throw new Declined("a column or condition of the table is not deterministic");
    List expressions = new ArrayList(CollectionConverters.asJava(plan.output())), conditions = new ArrayList();
    if (plan instanceof Project) {
      expressions = new ArrayList(CollectionConverters.asJava(((Project) plan).projectList()));
      plan = ((Project) plan).child();
    }
    while (plan instanceof Filter) {
      split(((Filter) plan).condition(), conditions);
      plan = ((Filter) plan).child();
    }
    if (plan instanceof DataSourceV2ScanRelation) return new JoinedTable((DataSourceV2ScanRelation) plan, expressions, conditions);
    throw new Declined("the right side must be rows of a table, but it is the result of " + plan.nodeName());
  }

  private static void split(Expression condition, List parts) {
    if (condition instanceof And) {
      for (int i = 0; i < 2; i++) split((Expression) condition.children().apply(i), parts);
    } else {
      parts.add(condition);
    }
  }

  /** Spark evaluates some conditions again after the scan, where they would come too late: the scan must evaluate all exactly. */
  private void check(Expression condition) {
    try {
      scala.Option pushed = new V2ExpressionBuilder(condition, true).build();
      if (scan.evaluates(pushed.isEmpty() ? null : pushed.get(), condition.sql())) return;
    } catch (AssertionError fails) {
      // see PushDownTrial
    }
    throw new Declined("the scan of the table cannot evaluate " + condition.sql());
  }

  /** The column that an expression is. */
  private void trace(Expression e) {
    String shown = e.sql();
    StructField field = null;
    while (!(e instanceof AttributeReference)) {
      boolean isCast = e instanceof Cast && isOfFloats(((Expression) e.children().apply(0)).dataType()) && isOfFloats(e.dataType());
      if (!(e instanceof Alias) && !(e instanceof GetStructField) && !isCast) throw new Declined("the vectors of the table are no column of it: " + shown);
      if (e instanceof GetStructField) {
        StructField own = ((GetStructField) e).childSchema().fields()[((GetStructField) e).ordinal()];
        field = field == null ? own : field;
        path.add(0, own.name());
      }
      e = (Expression) e.children().apply(0);
    }
    Attribute column = (Attribute) e;
    path.add(0, column.name());
    boolean isFixed = (field == null ? column.metadata() : field.metadata()).contains(Names.FIXED_SIZE);
    if (!isFixed || !isOfFloats(field == null ? column.dataType() : field.dataType())) {
      throw new Declined("the column " + String.join(".", path) + " has no vectors of floats of one size");
    }
  }

  private static boolean isOfFloats(DataType type) { return type instanceof ArrayType && PlanJson.isFloat(((ArrayType) type).elementType()); }

  /** What Python plans for a join of questions with these columns; see lance_spark.spark.planner.nearest. */
  byte[] planned(NearestCall call, StructType questions) {
    ObjectNode join = Json.object().put("k", call.k).put("metric", call.metric).put("exact", call.isExact).put("left", call.isLeft);
    join.put("questions", questions.json()).set("column", names());
    StructField[] fields = new StructField[columns.size()];
    for (int i = 0; i < fields.length; i++) {
      Attribute column = (Attribute) columns.get(i);
      fields[i] = new StructField(column.name(), column.dataType(), column.nullable(), column.metadata());
    }
    return scan.joined(join, new StructType(fields));
  }

  private ArrayNode names() {
    ArrayNode names = Json.array();
    for (int i = 0; i < path.size(); i++) names.add((String) path.get(i));
    return names;
  }

  /** What explain shows. */
  String name() { return scan.joinedName(); }
}
