package lancespark.core;

import java.io.IOException;
import java.io.InputStream;
import java.util.*;

/**
 * The parts of the planner, and the internals of Spark beyond the public connector API that each of them uses: features.txt.
 *
 * Another version of Spark may change any of them. Therefore they are checked in the running Spark before a plan is changed. What one feature
 * uses costs that feature only: its sources are not compiled, and no others refer to them but by its plugin. This class refers to Spark's classes
 * only by name, so it loads in every version.
 *
 * To look at each entry takes a third of the time in which a session is prepared. So the public builds of Spark with which the package was tested
 * are known by their revisions: they lack only the features of newer versions.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
public class Features {
  /** The versions of Spark that contain everything in the list. */
  public static final String VERSIONS = "4.0, 4.1, 4.2 and 4.3";
  private static final Map<String, Feature> FEATURES = new LinkedHashMap<>();
  /** The revisions of the builds that were tested. */
  private static final Set TESTED = new HashSet();
  /** Spark's own file about its build. */
  private static final String BUILD = "spark-version-info.properties";

  static {
    String[] lines = FeatureLines.ALL;
    Feature last = null;
    for (int i = 0; i < lines.length; i++) {
      int space = lines[i].indexOf(' ');
      if (space < 0 || lines[i].startsWith("#")) continue;
      String key = lines[i].substring(0, space), value = lines[i].substring(space + 1);
      if (key.equals("build")) TESTED.add(value.substring(value.indexOf(' ') + 1));
      else if (key.equals("feature")) FEATURES.put(value, last = new Feature(value));
      else last.say(key, value);
    }
  }

  public Features() {}

  static Feature feature(String name) { return (Feature) FEATURES.get(name); }

  /** All features, in the order of features.txt. */
  static Collection<Feature> all() { return FEATURES.values(); }

  /** The features, except `expected`, for which the Spark of `loader` lacks something. Names are separated by spaces. */
  public String lacking(String expected, ClassLoader loader) {
    List out = new ArrayList(), known = Arrays.asList(expected.split(" "));
    if (isTested(build(loader))) return "";
    for (String name : FEATURES.keySet()) {
      if (!known.contains(name) && !missing(name, loader).isEmpty()) out.add(name);
    }
    return String.join(" ", (String[]) out.toArray(new String[0]));
  }

  /** True if the Spark of `loader` has all that a feature uses. */
  static boolean isThere(Feature feature, ClassLoader loader) {
    Properties build = build(loader);
    if (!isTested(build)) return new Features().missing(feature.name, loader).isEmpty();
    for (Feature needed : feature.needed()) if (!needed.isIn(build.getProperty("version"))) return false;
    return true;
  }

  private static boolean isTested(Properties build) { return TESTED.contains(build.getProperty("revision")); }

  private static Properties build(ClassLoader loader) {
    Properties found = new Properties();
    InputStream file = loader.getResourceAsStream(BUILD);
    if (file == null) return found;
    try {
      found.load(file);
      file.close();
    } catch (IOException cannotBeRead) {
      found.clear();
    }
    return found;
  }

  /** The entries of a feature and of those that it needs that are missing in the Spark of `loader`, which is the same one for each call. */
  public List missing(String feature, ClassLoader loader) {
    List out = new ArrayList();
    for (Feature needed : feature(feature).needed()) out.addAll(needed.missing(loader));
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
