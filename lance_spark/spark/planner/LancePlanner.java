package lancespark;

import java.util.*;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.V2ScanRelationPushDown$;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The optimizer rule that lets Spark push columns, filters, limits and aggregates into lance scans.
 *
 * Spark plans every Python source as a scan of all columns. This rule replaces the table of such a scan by LanceTable, whose scan builder
 * implements the public connector interfaces, and then runs Spark's own V2ScanRelationPushDown. So Spark's rules decide what is pushed, and
 * Catalyst expressions are not translated here.
 *
 * Janino compiles the sources of this package at run time on Spark 4.0 to 4.3. It supports neither lambdas nor type inference, hence the
 * casts. Features lists everything that is not in Spark's public connector API.
 */
public class LancePlanner extends Rule {
  static final String SOURCE = "lance";
  private static final String NAME = "lance_spark.LancePlanner", EXCLUDED = "spark.sql.optimizer.excludedRules";
  static final Logger LOG = LoggerFactory.getLogger("lance_spark");
  private static final int WARNINGS = 3;
  private static int failures = 0;

  public LancePlanner() {}

  public String ruleName() { return NAME; }

  /** Whether the session excludes this rule. Then a scan takes columns only: analysis, which cannot be excluded, has replaced the table. */
  static boolean isExcluded() { return isExcluded(NAME); }

  static boolean isExcluded(String rule) { return Arrays.asList(SparkSession.active().conf().get(EXCLUDED, "").split("\\s*,\\s*")).contains(rule); }

  /**
   * As a session extension, this rule runs before Spark's push-down and gets relations. As an extra optimization, it runs after the push-down,
   * gets finished scans and repeats the push-down. After a failure the plan stays unchanged, which is slower but correct.
   */
  public TreeNode apply(TreeNode plan) {
    if (!Features.areKnown("scan")) return plan;
    try {
      Swap swap = new Swap();
      LogicalPlan swapped = swap.in((LogicalPlan) plan);
      return swap.scans > 0 ? (LogicalPlan) V2ScanRelationPushDown$.MODULE$.apply(withConditions(swapped)) : swapped;
    } catch (Throwable t) {
      warn(t);
      return plan;
    }
  }

  /** Says why a query is slower than it could be, a few times. */
  static void warn(Throwable reason) {
    if (failures++ < WARNINGS) LOG.warn("push-down failed: the query reads whole lance tables", reason);
  }

  /** The plan with the conditions that Spark does not push, and with others in their order, if that feature is there; after a failure as it is. */
  static LogicalPlan withConditions(LogicalPlan plan) {
    try {
      Walk extra = (Walk) Features.object("conditions", "ExtraConditions"), order = (Walk) Features.object("conditions", "OrderOfConditions");
      return extra == null ? plan : order.in(extra.in(plan));
    } catch (Throwable t) {
      warn(t);
      return plan;
    }
  }

  /** Installs the rules through spark.sql.extensions, or into the extensions of an existing session. */
  public static class Extensions implements scala.Function1 {
    private static final Map done = Collections.synchronizedMap(new WeakHashMap());

    public Object apply(Object extensions) {
      if (done.put(extensions, Boolean.TRUE) == null) add((SparkSessionExtensions) extensions);
      return scala.runtime.BoxedUnit.UNIT;
    }

    private static void add(SparkSessionExtensions extensions) {
      List additions = additions(), rules = rules();
      for (int i = 0; i < additions.size(); i++) ((Addition) additions.get(i)).addTo(extensions);
      for (int i = 0; i < rules.size(); i++) extensions.injectOptimizerRule(new Builder((Rule) rules.get(i)));
      extensions.injectPreCBORule(new Builder(new PushDownTrial()));
    }

    /** The optimizer rules of the features that are there, in their order. */
    public static List rules() {
      return all(new Object[] { Features.object("row_level", "RowLevelCommands"), Features.object("session_catalog", "CatalogTables"),
          Features.object("catalog", "DroppedTables"), new LancePlanner(), new ReplaceGuard() });
    }

    private static List additions() {
      return all(new Object[] { Features.object("resolution", "LanceResolution"), Features.object("resolution", "EarlyNames"),
          Features.object("statements", "StatementParser"), Features.object("functions", "LanceScanFunction"), Features.object("text", "TextFunction"),
          Features.object("nearest", "NearestJoins") });
    }

    private static List all(Object[] found) {
      List out = new ArrayList(Arrays.asList(found));
      out.removeAll(Collections.singletonList(null));
      return out;
    }

    /** Adds to a session that is built its rules, as extra optimizations, and what is not an optimizer rule. */
    public void addTo(SparkSession session) throws Exception {
      ReplaceGuard.addTo(session, rules());
      List additions = additions();
      for (int i = 0; i < additions.size(); i++) ((Addition) additions.get(i)).addTo(session);
    }

    /** Why a feature is not there; empty if it is. */
    public String complaint(String feature) { return Features.complaint(feature); }
  }

  static class Builder implements scala.Function1 {
    private final Rule rule;

    Builder(Rule rule) { this.rule = rule; }

    public Object apply(Object session) { return rule; }
  }

  /** Replaces relations and finished scans, and counts them. */
  static class Swap extends Walk {
    int scans = 0;

    LogicalPlan changed(LogicalPlan plan) throws Exception {
      if (plan instanceof DataSourceV2ScanRelation) {
        DataSourceV2ScanRelation scan = (DataSourceV2ScanRelation) plan;
        if (!(scan.scan() instanceof PythonScan) || !isLance(scan.relation().table())) return plan;
        scans++;
        return LanceTable.relation(scan.relation(), scan.output());
      }
      if (!(plan instanceof DataSourceV2Relation)) return plan;
      DataSourceV2Relation relation = (DataSourceV2Relation) plan;
      return isLance(relation.table()) ? LanceTable.relation(relation, relation.output()) : plan;
    }
  }

  static boolean isLance(Table table) { return table instanceof PythonTable && table.name().equalsIgnoreCase(SOURCE); }

  static org.apache.spark.sql.classic.SparkSession session() {
    return (org.apache.spark.sql.classic.SparkSession) (Object) org.apache.spark.sql.classic.SparkSession$.MODULE$.active();
  }
}

/** A walk through a plan from its root to its leaves. */
abstract class Walk {
  /** Returns the replacement of a node, or the node itself. */
  abstract LogicalPlan changed(LogicalPlan plan) throws Exception;

  LogicalPlan in(LogicalPlan plan) throws Exception {
    LogicalPlan node = changed(plan);
    if (node != plan) return node;
    List children = new ArrayList();
    boolean isChanged = false;
    Iterator it = CollectionConverters.asJava(plan.children()).iterator();
    while (it.hasNext()) {
      LogicalPlan child = (LogicalPlan) it.next();
      LogicalPlan now = in(child);
      isChanged = isChanged || now != child;
      children.add(now);
    }
    return isChanged ? (LogicalPlan) plan.withNewChildren(CollectionConverters.asScala(children).toSeq()) : plan;
  }
}

/** What a feature adds to sessions. */
interface Addition {
  /** To those that are built with these extensions. */
  void addTo(SparkSessionExtensions extensions);

  /** To one that is built. */
  void addTo(SparkSession session) throws Exception;
}
