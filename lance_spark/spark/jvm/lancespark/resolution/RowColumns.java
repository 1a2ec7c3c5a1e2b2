package lancespark.resolution;

import java.util.*;
import lancespark.core.Session;
import lancespark.core.SparkInternals;
import lancespark.core.Walk;
import lancespark.source.MetadataColumns;
import lancespark.table.LanceTable;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.Metadata;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The metadata columns that a row-level command names. Spark rewrites a command to a query as soon as its names are known. It may
 * do so before it adds these columns to what the query reads: then they are added here.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
class RowColumns {
  /** The key with which Spark marks an attribute as a metadata column. */
  private static final String MARK = "__metadata_col";
  /** The argument of some versions with the condition on the groups of rows that change. */
  private static final String GROUPS = "groupFilterCondition";
  private final boolean isDelta;

  private RowColumns(boolean isDelta) { this.isDelta = isDelta; }

  /** The rewritten command, whose query reads what it names. */
  static LogicalPlan addedTo(LogicalPlan command) {
    boolean isDelta = command.getClass().getSimpleName().equals("WriteDelta");
    RowColumns columns = new RowColumns(isDelta);
    LogicalPlan query = (LogicalPlan) SparkInternals.argument((scala.Product) command, "query");
    LogicalPlan read = query.resolved() ? columns.in(query) : query;
    LogicalPlan changed = read == query ? command : (LogicalPlan) SparkInternals.with((scala.Product) command, "query", read);
    return isDelta && isOfLance(command) ? withoutGroups(changed) : changed;
  }

  private static boolean isOfLance(LogicalPlan delta) {
    Object target = SparkInternals.argument((scala.Product) delta, "table");
    return target instanceof DataSourceV2Relation && LanceTable.scanned(((DataSourceV2Relation) target).table()) != null;
  }

  /** The command without the condition on groups of rows, which would lack these columns, and which RowLevelCommands does not use. */
  private static LogicalPlan withoutGroups(LogicalPlan delta) {
    scala.Product all = (scala.Product) delta;
    for (int i = 0; i < all.productArity(); i++) {
      boolean isSet = all.productElementName(i).equals(GROUPS) && !((scala.Option) all.productElement(i)).isEmpty();
      if (isSet) return (LogicalPlan) SparkInternals.with(all, GROUPS, scala.Option.empty());
    }
    return delta;
  }

  private LogicalPlan in(LogicalPlan plan) {
    List missing = missing(plan);
    List<LogicalPlan> children = new ArrayList<>();
    for (LogicalPlan child : CollectionConverters.asJava(plan.children())) {
      boolean isSource = !isDelta && isAntiJoin(plan) && children.isEmpty();
      children.add(missing.isEmpty() || isSource ? in(child) : with(in(child), missing));
    }
    return Walk.over(plan, children);
  }

  private static boolean isAntiJoin(LogicalPlan plan) { return plan instanceof Join && ((Join) plan).joinType().sql().equals("LEFT ANTI"); }

  /** The metadata columns that a node refers to and does not get. */
  private static List missing(LogicalPlan plan) {
    List missing = new ArrayList();
    for (Attribute attribute : CollectionConverters.asJava(plan.missingInput().toSeq())) {
      if (MetadataColumns.isOne(attribute.name())) missing.add(attribute);
    }
    return missing;
  }

  /** The plan with these columns in its output, if it reads the table that the command changes. */
  private LogicalPlan with(LogicalPlan plan, List columns) {
    if (plan instanceof DataSourceV2Relation) return isTarget(((DataSourceV2Relation) plan).table()) ? read(plan, columns) : plan;
    List<LogicalPlan> children = new ArrayList<>();
    for (LogicalPlan child : CollectionConverters.asJava(plan.children())) children.add(with(child, columns));
    LogicalPlan changed = Walk.over(plan, children);
    if (changed == plan || !(plan instanceof Project)) return changed;
    return new Project(more(((Project) plan).projectList(), columns), (LogicalPlan) children.get(0));
  }

  private boolean isTarget(Table table) { return isDelta ? table instanceof RowLevelOperationTable && LanceTable.scanned(table) != null : table instanceof LanceTable; }

  private static LogicalPlan read(LogicalPlan relation, List columns) {
    return (LogicalPlan) SparkInternals.with((scala.Product) relation, "output", more(relation.output(), columns));
  }

  private static scala.collection.immutable.Seq more(scala.collection.immutable.Seq own, List columns) {
    List all = new ArrayList(CollectionConverters.asJava(own));
    for (int i = 0; i < columns.size(); i++) if (!all.contains(columns.get(i))) all.add(columns.get(i));
    return CollectionConverters.asScala(all).toSeq();
  }

  /**
   * A MERGE in which these columns are no metadata columns for Spark. Otherwise, where it converts a value that is compared with one,
   * it takes all of them for columns of the table, which INSERT must assign. The rewritten command gets them as others do.
   */
  static LogicalPlan detachedIn(MergeIntoTable merge) {
    // This version rewrites a command after these rules.
    if (Session.active().version().startsWith("4.0.") || !merge.childrenResolved()) return merge;
    Detached detached = new Detached(merge);
    LogicalPlan changed = (LogicalPlan) merge.mapExpressions(new Each(detached));
    return detached.isChanged ? changed : merge;
  }

  /** Replaces the attributes of a MERGE that are metadata columns of its target. A name has one attribute. */
  private static class Detached extends scala.runtime.AbstractPartialFunction {
    boolean isChanged = false;
    private final List own = new ArrayList();
    private final Map byName = new HashMap();

    Detached(MergeIntoTable merge) {
      LogicalPlan target = (LogicalPlan) SparkInternals.argument((scala.Product) merge, "targetTable");
      for (NamedExpression column : CollectionConverters.asJava(target.metadataOutput())) own.add(column.exprId());
      for (Attribute attribute : CollectionConverters.asJava(merge.missingInput().toSeq())) {
        if (MetadataColumns.isOne(attribute.name()) && !attribute.metadata().contains(MARK)) byName.put(attribute.name(), attribute);
      }
    }

    public boolean isDefinedAt(Object e) {
      if (!(e instanceof AttributeReference)) return false;
      AttributeReference attribute = (AttributeReference) e;
      return MetadataColumns.isOne(attribute.name()) && own.contains(attribute.exprId());
    }

    public Object applyOrElse(Object e, scala.Function1 otherwise) {
      if (!isDefinedAt(e)) return otherwise.apply(e);
      isChanged = true;
      AttributeReference given = (AttributeReference) e;
      if (!byName.containsKey(given.name())) {
        byName.put(given.name(), new AttributeReference(given.name(), given.dataType(), given.nullable(), Metadata.empty(),
            NamedExpression$.MODULE$.newExprId(), (scala.collection.immutable.Seq) scala.collection.immutable.Nil$.MODULE$));
      }
      return byName.get(given.name());
    }
  }

  private static class Each implements scala.Function1 {
    private final Detached detached;

    Each(Detached detached) { this.detached = detached; }

    public Object apply(Object expression) { return ((Expression) expression).transform(detached); }
  }
}
