package lancespark.text;

import java.util.*;
import lancespark.core.SparkInternals;
import lancespark.core.Walk;
import lancespark.table.LanceTable;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.*;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Replaces the calls of text functions in a plan: each becomes a column of the table that its text comes from, which the scan computes.
 *
 * The column is a value like others: whatever Spark's optimizer does with the condition, it remains that of the row and of its table. Spark gives
 * the column to the scan as a condition where it can, and then does not read it. It is in the plan between the table and the call only.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
public class TextColumns extends Walk {
  /** Nodes that return the columns of their children, maybe beside others. */
  private static final Set PASSING = new HashSet(Arrays.asList(new String[] { "Filter", "SubqueryAlias", "View", "Join", "Sort", "GlobalLimit",
      "LocalLimit", "Offset", "Tail", "Window", "Generate", "Sample", "Repartition", "RepartitionByExpression", "RebalancePartitions", "ResolvedHint",
      "Deduplicate", "PipeOperator" }));
  private static final Set COMMANDS = new HashSet(Arrays.asList(new String[] { "DeleteFromTable", "UpdateTable", "MergeIntoTable", "WriteDelta" }));
  /** The plans of common table expressions, by their ids. */
  private final Map definitions = new HashMap();

  public TextColumns() {}

  public LogicalPlan in(LogicalPlan plan) {
    if (!plan.containsPattern(TreePattern$.MODULE$.SCALA_UDF())) return plan;
    if (plan instanceof WithCTE) {
      if (!plan.resolved()) return plan;
      define((WithCTE) plan, true);
      return defined((WithCTE) plan, in(((WithCTE) plan).plan()));
    }
    List<LogicalPlan> children = new ArrayList<>();
    for (LogicalPlan child : CollectionConverters.asJava(plan.children())) children.add(in(child));
    return changed(over(plan, children));
  }

  public LogicalPlan changed(LogicalPlan node) {
    // Spark rewrites a command to a query, in which the calls are, too. It does not evaluate the condition of the command itself.
    if (COMMANDS.contains(node.getClass().getSimpleName()) || !node.resolved()) return node;
    Calls calls = new Calls(new ArrayList(CollectionConverters.asJava(node.children())));
    LogicalPlan replaced = (LogicalPlan) node.mapExpressions(calls);
    if (!calls.isChanged) return node;
    replaced = (LogicalPlan) replaced.withNewChildren(seq(calls.children));
    scala.collection.immutable.Seq output = (scala.collection.immutable.Seq) (Object) node.output();
    return replaced.output().equals(output) ? replaced : new Project(output, replaced);
  }

  private static scala.collection.immutable.Seq seq(List elements) { return CollectionConverters.asScala(elements).toSeq(); }

  /** Remembers the common table expressions of a plan. */
  private void define(WithCTE plan, boolean replaces) {
    for (CTERelationDef definition : CollectionConverters.asJava(plan.cteDefs())) {
      definitions.put(Long.valueOf(definition.id()), replaces ? in(definition.child()) : definition.child());
    }
  }

  /** The plan with the common table expressions as they are now. */
  private LogicalPlan defined(WithCTE plan, LogicalPlan inner) {
    List all = new ArrayList();
    for (CTERelationDef definition : CollectionConverters.asJava(plan.cteDefs())) {
      all.add(SparkInternals.with(definition, "child", definitions.get(Long.valueOf(definition.id()))));
    }
    return (LogicalPlan) SparkInternals.with(SparkInternals.with(plan, "plan", inner), "cteDefs", seq(all));
  }

  /** Replaces the calls in the expressions of a node, whose children get the columns. */
  private class Calls implements scala.Function1 {
    final List children;
    boolean isChanged = false;

    Calls(List children) { this.children = children; }

    public Object apply(Object e) {
      return replaced((Expression) e);
    }

    private Expression replaced(Expression e) {
      TextCall call = TextCall.of(e);
      if (call != null) return column(call, e);
      Expression out = e;
      if (e instanceof SubqueryExpression) {
        LogicalPlan plan = (LogicalPlan) ((SubqueryExpression) e).plan(), now = in(plan);
        isChanged = isChanged || now != plan;
        if (now != plan) out = ((SubqueryExpression) e).withNewPlan(now);
      }
      List operands = new ArrayList(), before = CollectionConverters.asJava(e.children());
      for (int i = 0; i < before.size(); i++) operands.add(replaced((Expression) before.get(i)));
      return operands.equals(before) ? out : (Expression) out.withNewChildren(seq(operands));
    }

    private Expression column(TextCall call, Expression e) {
      Path path = Path.of((Expression) e.children().apply(0));
      for (int i = 0; path != null && i < children.size(); i++) {
        if (attribute((LogicalPlan) children.get(i), path.root) == null) continue;
        try {
          Found found = new Trace(call).in((LogicalPlan) children.get(i), path);
          children.set(i, found.plan);
          isChanged = true;
          return found.column;
        } catch (NotYet later) {
          return e;
        }
      }
      throw new UnsupportedOperationException(call.function + " needs a column of a table in FROM, not " + ((Expression) e.children().apply(0)).sql());
    }
  }

  /** The column with this id in the output of a plan; null if there is none. */
  private static Attribute attribute(LogicalPlan plan, ExprId id) {
    for (Attribute attribute : CollectionConverters.asJava(plan.output())) {
      if (attribute.exprId().equals(id)) return attribute;
    }
    return null;
  }

  /** Finds the table of a text, and has it and all nodes above it return the results of a call. */
  private class Trace {
    private final TextCall call;

    Trace(TextCall call) { this.call = call; }

    Found in(LogicalPlan plan, Path path) {
      String kind = plan.getClass().getSimpleName();
      if (plan instanceof DataSourceV2Relation && LanceTable.scanned(((DataSourceV2Relation) plan).table()) != null) {
        return inTable((DataSourceV2Relation) plan, path);
      }
      if (plan instanceof Project) return inProject((Project) plan, path);
      if (plan instanceof Aggregate) return inGroups((Aggregate) plan, path);
      if (plan instanceof Union) return inUnion(plan, path);
      if (plan instanceof CTERelationRef) return inReference((CTERelationRef) plan, path);
      if (plan instanceof WithCTE) {
        define((WithCTE) plan, false);
        Found found = in(((WithCTE) plan).plan(), path);
        return found.under(defined((WithCTE) plan, found.plan));
      }
      boolean isDistinct = kind.equals("Distinct");
      if (!isDistinct && !PASSING.contains(kind)) throw untraceable(plan, path, "");
      List children = new ArrayList(CollectionConverters.asJava(plan.children()));
      int at = 0;
      while (attribute((LogicalPlan) children.get(at), path.root) == null) if (++at == children.size()) throw untraceable(plan, path, "");
      Found found = in((LogicalPlan) children.get(at), path);
      if (isDistinct && found.isOfSeveral) throw untraceable(plan, path, " of several tables");
      children.set(at, found.plan);
      return found.under((LogicalPlan) plan.withNewChildren(seq(children)));
    }

    private UnsupportedOperationException untraceable(LogicalPlan plan, Path path, String what) {
      Attribute column = attribute(plan, path.root);
      return new UnsupportedOperationException(call.function + ": the column " + (column == null ? "" : column.name() + " ") + "cannot be traced to a lance "
          + "table, because it is the result of " + plan.nodeName() + what + "; move the condition to the query of the table");
    }

    private Found inTable(DataSourceV2Relation relation, Path path) {
      Attribute text = attribute(relation, path.root);
      List names = new ArrayList(path.names);
      names.add(0, text.name());
      String name = call.nameFor(names);
      DataType type = path.in(text.dataType()), items = type instanceof ArrayType ? ((ArrayType) type).elementType() : type;
      if (!(items instanceof StringType)) {
        throw new UnsupportedOperationException(call.function + " needs a column of texts or lists of texts; " + String.join(".", names) + " is of the type "
            + type.simpleString());
      }
      List output = new ArrayList(CollectionConverters.asJava(relation.output()));
      for (int i = 0; i < output.size(); i++) if (((Attribute) output.get(i)).name().equals(name)) return new Found(relation, (Attribute) output.get(i));
      Attribute column = new AttributeReference(name, DataTypes.BooleanType, true, Metadata.empty(), NamedExpression$.MODULE$.newExprId(),
          (scala.collection.immutable.Seq) scala.collection.immutable.Nil$.MODULE$);
      output.add(column);
      return new Found((LogicalPlan) SparkInternals.with(relation, "output", seq(output)), column);
    }

    /** The path below a list of expressions of the one with the id. */
    private Path below(LogicalPlan plan, scala.collection.immutable.Seq<NamedExpression> expressions, Path path) {
      for (NamedExpression e : CollectionConverters.asJava(expressions)) {
        Path below = e.exprId().equals(path.root) ? Path.of((Expression) e) : null;
        if (below != null) return new Path(below.root, joined(below.names, path.names));
      }
      throw untraceable(plan, path, "");
    }

    private Found inProject(Project project, Path path) {
      Found found = in(project.child(), below(project, project.projectList(), path));
      boolean isThere = attribute(project, found.column.exprId()) != null;
      return found.under(new Project(isThere ? project.projectList() : with(project.projectList(), found.column), found.plan));
    }

    /** The results for a key of groups are another key. */
    private Found inGroups(Aggregate groups, Path path) {
      Path below = below(groups, groups.aggregateExpressions(), path);
      Iterator keys = CollectionConverters.asJava(groups.groupingExpressions()).iterator();
      boolean isKey = false;
      while (keys.hasNext()) {
        Object key = keys.next();
        isKey = isKey || key instanceof AttributeReference && ((NamedExpression) key).exprId().equals(below.root);
      }
      if (!isKey) throw untraceable(groups, path, "");
      Found found = in(groups.child(), below);
      if (found.isOfSeveral) throw untraceable(groups, path, " of several tables");
      LogicalPlan plan = (LogicalPlan) groups.withNewChildren(seq(Collections.singletonList(found.plan)));
      if (attribute(groups, found.column.exprId()) != null) return found.under(plan);
      plan = (LogicalPlan) SparkInternals.with(plan, "groupingExpressions", with(groups.groupingExpressions(), found.column));
      return found.under((LogicalPlan) SparkInternals.with(plan, "aggregateExpressions", with(groups.aggregateExpressions(), found.column)));
    }

    /** The rows of each table are tested in its own way. */
    private Found inUnion(LogicalPlan union, Path path) {
      List children = new ArrayList(CollectionConverters.asJava(union.children())), columns = CollectionConverters.asJava(union.output());
      int at = columns.indexOf(attribute(union, path.root));
      for (int i = 0; i < children.size(); i++) {
        LogicalPlan child = (LogicalPlan) children.get(i);
        Found found = in(child, new Path(((Attribute) child.output().apply(at)).exprId(), path.names));
        children.set(i, new Project(with(child.output(), found.column), found.plan));
      }
      LogicalPlan plan = (LogicalPlan) union.withNewChildren(seq(children));
      return new Found(plan, (Attribute) plan.output().apply(columns.size()), true);
    }

    /** A reference has the columns of the common table expression in their order, some of them at least. */
    private Found inReference(CTERelationRef reference, Path path) {
      Long id = Long.valueOf(reference.cteId());
      LogicalPlan definition = (LogicalPlan) definitions.get(id);
      if (definition == null) throw new NotYet();
      int at = CollectionConverters.asJava(reference.output()).indexOf(attribute(reference, path.root));
      Found found = in(definition, new Path(((Attribute) definition.output().apply(at)).exprId(), path.names));
      List columns = new ArrayList(CollectionConverters.asJava(definition.output())), output = new ArrayList(CollectionConverters.asJava(reference.output()));
      if (attribute(definition, found.column.exprId()) == null) columns.add(found.column);
      definitions.put(id, new Project(seq(columns), found.plan));
      int to = columns.indexOf(found.column);
      while (output.size() <= to) output.add(((Attribute) columns.get(output.size())).newInstance());
      return new Found((LogicalPlan) SparkInternals.with(reference, "output", seq(output)), (Attribute) output.get(to), found.isOfSeveral);
    }
  }

  private static List joined(List first, List second) {
    List out = new ArrayList(first);
    out.addAll(second);
    return out;
  }

  private static scala.collection.immutable.Seq with(scala.collection.immutable.Seq elements, Object last) {
    return seq(joined(CollectionConverters.asJava(elements), Collections.singletonList(last)));
  }
}
