package lancespark.core;

import java.util.*;

/**
 * The parts of the planner, and the internals of Spark beyond the public connector API that each of them uses: features.txt.
 *
 * Another version of Spark may change any of them. Therefore they are checked in the running Spark before a plan is changed. What one feature
 * uses costs that feature only: its sources are not compiled, and no others refer to them but by its plugin. This class refers to Spark's classes
 * only by name, so it loads in every version.
 */
public class Features {
  /** The versions of Spark that contain everything in the list. */
  public static final String VERSIONS = "4.0, 4.1, 4.2 and 4.3";
  private static final Map FEATURES = new LinkedHashMap();

  static {
    String[] lines = FeatureLines.ALL;
    Feature last = null;
    for (int i = 0; i < lines.length; i++) {
      int space = lines[i].indexOf(' ');
      if (space < 0 || lines[i].startsWith("#")) continue;
      String key = lines[i].substring(0, space), value = lines[i].substring(space + 1);
      if (key.equals("feature")) FEATURES.put(value, last = new Feature(value));
      else last.say(key, value);
    }
  }

  public Features() {}

  static Feature feature(String name) { return (Feature) FEATURES.get(name); }

  /** All features, in the order of features.txt. */
  static Collection all() { return FEATURES.values(); }

  /** The names of the features. */
  public List names() { return new ArrayList(FEATURES.keySet()); }

  /** The entries of a feature and of those that it needs that are missing in the Spark of `loader`, which is the same one for each call. */
  public List missing(String feature, ClassLoader loader) {
    List out = new ArrayList();
    Iterator needed = feature(feature).needed().iterator();
    while (needed.hasNext()) out.addAll(((Feature) needed.next()).missing(loader));
    return out;
  }

  /** A sentence with the entries that the Spark of `loader` lacks for a feature, and what to do; empty if it lacks none. */
  public String complaint(String feature, ClassLoader loader) {
    List missing = missing(feature, loader);
    return missing.isEmpty() ? "" : "this version of Spark lacks " + String.join(", ", (String[]) missing.toArray(new String[0])) + ", which Spark "
        + VERSIONS + " have. Upgrade lance-spark, or use one of these versions";
  }

  /** Why a feature is not there; empty if it is. */
  public static String complaint(String feature) { return new Features().complaint(feature, Features.class.getClassLoader()); }

  /** True if Spark has all entries of a feature. Otherwise logs one warning for each. */
  public static boolean areKnown(String feature) { return feature(feature).isKnown(); }
}
