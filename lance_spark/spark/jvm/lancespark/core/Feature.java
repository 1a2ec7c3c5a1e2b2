package lancespark.core;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.*;
import org.slf4j.LoggerFactory;

/** A part of the planner that a Spark without some of its internals does without. */
@SuppressWarnings({"rawtypes", "unchecked"})
class Feature {
  final String name;
  /** What features.txt says of it. */
  String lost = "", plugin = null;
  private String needs = "", since = "0.0";
  /** Each has a class and the members in use. */
  private final List used = new ArrayList();
  private List missing = null;
  private Boolean known = null;

  Feature(String name) { this.name = name; }

  /** Takes what a line of features.txt says. */
  void say(String key, String value) {
    if (key.equals("lost")) lost = value;
    if (key.equals("plugin")) plugin = value;
    if (key.equals("needs")) needs = value;
    if (key.equals("since")) since = value;
    if (key.equals("named") || key.equals("uses")) used.add(value.split(" "));
  }

  /** The features that this one needs, directly or not, and itself. */
  Set<Feature> needed() {
    Set<Feature> all = new LinkedHashSet<>();
    if (!name.equals("scan")) all.add(Features.feature("scan"));
    String[] names = needs.isEmpty() ? new String[0] : needs.split(" ");
    for (int i = 0; i < names.length; i++) all.addAll(Features.feature(names[i]).needed());
    all.add(this);
    return all;
  }

  /** The entries that are missing in the Spark of `loader`, without those of features that this one needs. */
  synchronized List missing(ClassLoader loader) {
    if (missing != null) return missing;
    missing = new ArrayList();
    for (int i = 0; i < used.size(); i++) addMissing((String[]) used.get(i), loader);
    return missing;
  }

  private void addMissing(String[] entry, ClassLoader loader) {
    String simpleName = entry[0].substring(entry[0].lastIndexOf('.') + 1);
    try {
      Class type = Class.forName(entry[0], false, loader);
      for (int i = 1; i < entry.length; i++) if (!has(type, entry[i])) missing.add(simpleName + "#" + entry[i]);
    } catch (ClassNotFoundException e) {
      missing.add(simpleName);
    }
  }

  private static boolean has(Class type, String member) {
    if (member.startsWith(".")) return declares(type, member.substring(1));
    String name = member.substring(0, member.indexOf('/'));
    List parameters = Arrays.asList(member.substring(name.length() + 1).split("\\|"));
    if (name.equals("new")) {
      Constructor[] all = type.getConstructors();
      for (int i = 0; i < all.length; i++) if (parameters.contains("" + all[i].getParameterCount())) return true;
      return false;
    }
    Method[] all = type.getMethods();
    for (int i = 0; i < all.length; i++) {
      if (all[i].getName().equals(name) && parameters.contains("" + all[i].getParameterCount())) return true;
    }
    return false;
  }

  static boolean declares(Class type, String field) {
    try {
      type.getDeclaredField(field);
      return true;
    } catch (NoSuchFieldException e) {
      return false;
    }
  }

  /** True if a version of Spark, such as 4.3.0, should have what this feature uses. */
  boolean isIn(String version) {
    String[] first = since.split("\\."), given = version.split("\\.");
    int major = Integer.compare(Integer.parseInt(given[0]), Integer.parseInt(first[0]));
    return major != 0 ? major > 0 : Integer.parseInt(given[1]) >= Integer.parseInt(first[1]);
  }

  synchronized boolean isKnown() {
    if (known == null) {
      known = Boolean.valueOf(Features.isThere(this, Feature.class.getClassLoader()));
      // Without scans nothing else is there.
      boolean isTold = !name.equals("scan") && !Features.areKnown("scan");
      if (!known.booleanValue() && !isTold && !lost.isEmpty()) LoggerFactory.getLogger("lance_spark").warn(lost + ": " + Features.complaint(name));
    }
    return known.booleanValue();
  }
}
