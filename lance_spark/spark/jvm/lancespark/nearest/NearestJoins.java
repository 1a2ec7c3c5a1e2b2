package lancespark.nearest;

import java.util.*;
import lancespark.core.Addition;
import lancespark.core.RuleBuilder;
import lancespark.core.Session;
import lancespark.core.SparkInternals;
import lancespark.core.Walk;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.NearestByJoin;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.internal.SessionState;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The rule that finds joins by nearness with lance tables in analysed plans: `q JOIN t APPROX NEAREST 10 BY DISTANCE vector_l2_distance(q.v, t.v)`.
 *
 * Spark's optimizer first of all makes a cross product of such a join. Therefore this rule runs between analysis and optimization, as one that
 * normalizes plans. A join becomes a Generate, which Spark knows well: each row of the left side generates rows of the table. Spark pushes
 * conditions and columns through it, and then NearestStages plans its tasks. What cannot be joined here is left to Spark, and the log says why.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
public class NearestJoins extends Rule implements Addition {
  private static final String NAME = "lance_spark.NearestJoins";

  public NearestJoins() {}

  public String ruleName() { return NAME; }

  public TreeNode apply(TreeNode plan) {
    if (!plan.containsPattern(TreePattern$.MODULE$.NEAREST_BY_JOIN())) return plan;
    if (Session.isPushDownExcluded() || Session.isExcluded(NAME)) return plan;
    try {
      Definitions definitions = new Definitions();
      ((LogicalPlan) plan).transformUpWithSubqueries(definitions);
      return (TreeNode) ((LogicalPlan) plan).transformUpWithSubqueries(new Replacement(definitions));
    } catch (Throwable t) {
      Session.LOG.warn("joins by nearness with lance tables are cross products", t);
      return plan;
    }
  }

  public void addTo(SparkSessionExtensions extensions) {
    extensions.injectPlanNormalizationRule(new RuleBuilder(this));
    extensions.injectPreCBORule(new RuleBuilder(new NearestStages()));
  }

  /** Does nothing if the session has the rule. NearestStages comes from the extensions in a session that is built, too. */
  public void addTo(SparkSession session) {
    SessionState state = ((org.apache.spark.sql.classic.SparkSession) (Object) session).sessionState();
    List rules = new ArrayList(CollectionConverters.asJava((scala.collection.Seq) SparkInternals.get(state, "planNormalizationRules")));
    for (int i = 0; i < rules.size(); i++) if (((Rule) rules.get(i)).ruleName().equals(NAME)) return;
    rules.add(this);
    SparkInternals.set(state, "planNormalizationRules", CollectionConverters.asScala(rules).toSeq());
  }

  static scala.collection.immutable.Seq seq(List elements) { return CollectionConverters.asScala(elements).toSeq(); }

  /** A column with the value of an expression in the place of another one. */
  static Alias alias(Expression value, String name, Attribute like) {
    return new Alias(value, name, like.exprId(), (scala.collection.immutable.Seq) like.qualifier(), new scala.Some(like.metadata()), seq(new ArrayList()));
  }

  /** Remembers the common table expressions of a plan, and changes nothing. */
  static class Definitions extends scala.runtime.AbstractPartialFunction {
    private final Map plans = new HashMap();

    public boolean isDefinedAt(Object node) { return node instanceof CTERelationDef; }

    public Object applyOrElse(Object node, scala.Function1 others) {
      if (node instanceof CTERelationDef) plans.put(Long.valueOf(((CTERelationDef) node).id()), ((CTERelationDef) node).child());
      return node;
    }

    /** A plan that has the common table expressions themselves. */
    LogicalPlan inlined(LogicalPlan plan) {
      return new Walk() {
        public LogicalPlan changed(LogicalPlan node) {
          if (!(node instanceof CTERelationRef)) return node;
          LogicalPlan definition = (LogicalPlan) plans.get(Long.valueOf(((CTERelationRef) node).cteId()));
          if (definition == null) throw new Declined("the table is a common table expression of another query");
          List columns = new ArrayList();
          for (int i = 0; i < node.output().size(); i++) {
            Attribute own = (Attribute) node.output().apply(i);
            columns.add(alias((Expression) definition.output().apply(i), own.name(), own));
          }
          return new Project(seq(columns), inlined(definition));
        }
      }.in(plan);
    }
  }

  static class Replacement extends scala.runtime.AbstractPartialFunction {
    private final Definitions definitions;

    Replacement(Definitions definitions) { this.definitions = definitions; }

    public boolean isDefinedAt(Object node) { return node instanceof NearestByJoin; }

    public Object applyOrElse(Object node, scala.Function1 others) {
      if (!(node instanceof NearestByJoin)) return others.apply(node);
      NearestByJoin join = (NearestByJoin) node;
      try {
        return replaced(join, definitions.inlined(join.right()));
      } catch (Throwable t) {
        tell(t);
        return node;
      }
    }

    private static void tell(Throwable why) {
      String left = "Spark compares all rows of both sides of a join by nearness with a lance table";
      if (!(why instanceof Declined)) Session.LOG.warn(left, why);
      else if (((Declined) why).isOfOthers) Session.LOG.info("Spark joins by nearness itself: {}", why.getMessage());
      else Session.LOG.warn("{}: {}", left, why.getMessage());
    }

    private static LogicalPlan replaced(NearestByJoin join, LogicalPlan table) {
      NearestCall call = NearestCall.of(join, table);
      List columns = new ArrayList(CollectionConverters.asJava(join.output()));
      columns = columns.subList(join.left().output().size(), columns.size());
      return new Generate(call.on(call.question), seq(new ArrayList()), call.isLeft, scala.Option.empty(), seq(columns), join.left());
    }
  }
}
