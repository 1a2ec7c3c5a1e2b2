package lancespark.core;

import java.util.*;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/** The plugins of the features that this Spark has. They are asked in the order of features.txt. */
@SuppressWarnings({"rawtypes", "unchecked"})
public final class Plugins {
  private static List all = null;

  private Plugins() {}

  public static List rules() {
    List out = new ArrayList();
    for (int i = 0; i < all().size(); i++) out.addAll(Arrays.asList(at(i).rules()));
    return out;
  }

  public static List additions() {
    List out = new ArrayList();
    for (int i = 0; i < all().size(); i++) out.addAll(Arrays.asList(at(i).additions()));
    return out;
  }

  /** A plan whose tables are known, as the features change it. */
  public static LogicalPlan analyzed(LogicalPlan plan) {
    for (int i = 0; i < all().size(); i++) plan = changed(plan, at(i).analysis());
    return plan;
  }

  /** A plan before Spark pushes conditions into scans, as the features change it. */
  public static LogicalPlan readyForPushDown(LogicalPlan plan) {
    for (int i = 0; i < all().size(); i++) plan = changed(plan, at(i).beforePushDown());
    return plan;
  }

  private static LogicalPlan changed(LogicalPlan plan, Walk[] walks) {
    for (int i = 0; i < walks.length; i++) plan = walks[i].in(plan);
    return plan;
  }

  /** A hook of this type; null if no feature has one. The last feature that has one gives it: it may build on that of another. */
  public static Object hook(Class type) {
    for (int i = all().size() - 1; i >= 0; i--) {
      Object found = at(i).hook(type);
      if (found != null) return found;
    }
    return null;
  }

  private static Plugin at(int i) { return (Plugin) all().get(i); }

  private static synchronized List all() {
    if (all != null) return all;
    List found = new ArrayList();
    for (Feature feature : Features.all()) {
      if (feature.plugin != null && feature.isKnown()) found.add(made(feature.plugin));
    }
    return all = found;
  }

  private static Object made(String plugin) {
    try {
      return Class.forName(plugin).getDeclaredConstructor(new Class[0]).newInstance(new Object[0]);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }
}
