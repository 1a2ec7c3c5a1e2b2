package lancespark.core;

import java.util.*;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.jdk.javaapi.CollectionConverters;

/** The session in which a plan is made, and what its settings and its log are called. */
public final class Session {
  /** The name of the rule that pushes columns and conditions down. Users exclude it by this name. */
  public static final String PUSH_DOWN = "lance_spark.LancePlanner";
  public static final Logger LOG = LoggerFactory.getLogger("lance_spark");
  private static final String EXCLUDED = "spark.sql.optimizer.excludedRules";

  private Session() {}

  /** The session. Fails in one line if it was stopped, after which Spark may still analyze what was made in it. */
  public static org.apache.spark.sql.classic.SparkSession active() {
    org.apache.spark.sql.classic.SparkSession session = null;
    try {
      session = (org.apache.spark.sql.classic.SparkSession) (Object) org.apache.spark.sql.classic.SparkSession$.MODULE$.active();
    } catch (Throwable thereIsNone) {
    }
    if (session != null && !session.sparkContext().isStopped()) return session;
    throw new UnsupportedOperationException("the Spark session was stopped; start one, call lance_spark.enable, and open the table again");
  }

  /** What the session has set; `otherwise` if nothing. */
  public static String setting(String name, String otherwise) {
    active();
    return SparkSession.active().conf().get(name, otherwise);
  }

  /** True if the session excludes the rule of this name. */
  public static boolean isExcluded(String rule) {
    return Arrays.asList(setting(EXCLUDED, "").split("\\s*,\\s*")).contains(rule);
  }

  /** Adds a rule to a list of the analyzer of a session, unless the session has it. */
  public static void addRule(SparkSession session, String list, Rule<?> rule) {
    Object analyzer = ((org.apache.spark.sql.classic.SparkSession) (Object) session).sessionState().analyzer();
    List<Object> rules = new ArrayList<>(CollectionConverters.asJava((scala.collection.Seq<?>) SparkInternals.get(analyzer, list)));
    for (Object other : rules) if (((Rule<?>) other).ruleName().equals(rule.ruleName())) return;
    rules.add(rule);
    SparkInternals.set(analyzer, list, CollectionConverters.asScala(rules).toSeq());
  }

  /** True if a scan takes columns only: analysis, which cannot be excluded, has replaced its table. */
  public static boolean isPushDownExcluded() { return isExcluded(PUSH_DOWN); }
}
