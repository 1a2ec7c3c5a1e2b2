package lancespark.core;

import java.util.*;
import org.slf4j.LoggerFactory;

/** A part of the planner that a Spark without some of its internals does without. */
class Feature {
  final String[][] used;
  private final String name, lost, needs;
  private Boolean known = null;

  /** `lost` says what is lost without it, "" for what not all VERSIONS have; and `needs` has the names of the features that it needs besides "scan". */
  Feature(String name, String lost, String needs, String[][] used) {
    this.name = name;
    this.lost = lost;
    this.needs = needs;
    this.used = used;
  }

  /** The names of the features that this one needs, directly or not, and its own. */
  Set needed() {
    Set all = new LinkedHashSet();
    all.add("scan");
    String[] names = needs.isEmpty() ? new String[0] : needs.split(" ");
    for (int i = 0; i < names.length; i++) all.addAll(Features.feature(names[i]).needed());
    all.add(name);
    return all;
  }

  synchronized boolean isKnown() {
    if (known == null) {
      String complaint = Features.complaint(name);
      known = Boolean.valueOf(complaint.isEmpty());
      // Without scans nothing else is there.
      boolean isTold = !name.equals("scan") && !Features.areKnown("scan");
      if (!known.booleanValue() && !isTold && !lost.isEmpty()) LoggerFactory.getLogger("lance_spark").warn(lost + ": " + complaint);
    }
    return known.booleanValue();
  }
}
