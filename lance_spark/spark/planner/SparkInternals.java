package lancespark;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.*;
import org.slf4j.LoggerFactory;

/**
 * What the planner uses of Spark beyond its public connector API, and the only code that reads or writes private fields.
 *
 * Another version of Spark may change any of it. So it is listed in one place, compared with the Spark that runs before a plan is touched, and
 * by a test with the compiled classes. This class names Spark's classes as text only: it loads where the others do not.
 */
public class SparkInternals {
  /** The versions of Spark in which everything listed was seen. */
  public static final String VERSIONS = "4.0, 4.1, 4.2 and 4.3";

  private static final String SQL = "org.apache.spark.sql.", CATALYST = SQL + "catalyst.", LOGICAL = CATALYST + "plans.logical.";
  private static final String V2 = SQL + "execution.datasources.v2.", PYTHON = V2 + "python.";

  /**
   * Each row: a class and its members that are used. `name/2` is a method, `new/2` a constructor, each with its number of parameters, `.name`
   * a private field; in each of the VERSIONS.
   */
  private static final String[][] USED = {
    { PYTHON + "PythonTable", ".ds", "name/0", "schema/0", "capabilities/0", "newWriteBuilder/1" },
    { PYTHON + "PythonScan" },
    { PYTHON + "PythonBatch", "new/4" },
    { PYTHON + "PythonInputPartition", "pickedPartition/0" },
    { PYTHON + "PythonDataSourceV2", "new/0", "setShortName/1", "source/0", "getOrCreateDataSourceInPython/3", ".dataSourceInPython" },
    { PYTHON + "PythonDataSourceCreationResult", "new/2", "dataSource/0", "schema/0" },
    { PYTHON + "UserDefinedPythonDataSource", "createPythonMetrics/0" },
    { PYTHON + "PythonWrite", "new/4", ".ds", ".shortName", ".info", ".isTruncate" },
    { SQL + "execution.datasources.CreateTempViewUsing", "provider/0" },
    { V2 + "DataSourceV2Relation", "table/0", "output/0", "catalog/0", "identifier/0", "options/0" },
    { V2 + "DataSourceV2ScanRelation", "relation/0", "scan/0", "output/0" },
    { V2 + "V2ScanRelationPushDown$", "apply/1", ".MODULE$" },
    { CATALYST + "trees.TreeNode", "children/0", "makeCopy/1", "withNewChildren/1" },
    { CATALYST + "rules.Rule", "new/0" },
    { CATALYST + "analysis.NamedRelation" },
    { LOGICAL + "LogicalPlan" },
    { LOGICAL + "V2WriteCommand", "table/0" },
    { LOGICAL + "V2CreateTablePlan", "partitioning/0" },
    { LOGICAL + "CreateTableAsSelect", "tableSpec/0", "writeOptions/0" },
    { LOGICAL + "TableSpec", "options/0" },
    { LOGICAL + "TableSpecBase", "provider/0" },
    { CATALYST + "TableIdentifier", "new/2" },
    { CATALYST + "catalog.SessionCatalog", "getTableMetadata/1" },
    { CATALYST + "catalog.CatalogTable", "storage/0" },
    { CATALYST + "catalog.CatalogStorageFormat", "properties/0", "locationUri/0" },
    { SQL + "internal.connector.SupportsMetadata" },
    { SQL + "internal.SessionState", "catalog/0" },
    { SQL + "classic.SparkSession", "sessionState/0", "sparkContext/0" },
    { SQL + "classic.SparkSession$", "active/0", ".MODULE$" },
    { "org.apache.spark.unsafe.Platform", "throwException/1" },
  };

  private static final String READ_WHOLE = "lance tables are read whole; to read less use the options columns, filter and limit: ";
  private static Boolean known = null;

  public SparkInternals() {}

  /** Every class of the list as `class#`, and every member as `class#member`. */
  public List used() {
    List out = new ArrayList();
    for (int i = 0; i < USED.length; i++) {
      out.add(USED[i][0] + "#");
      for (int k = 1; k < USED[i].length; k++) out.add(USED[i][0] + "#" + USED[i][k]);
    }
    return out;
  }

  /** The entries that the Spark of `loader` does not have. */
  public List missing(ClassLoader loader) {
    List out = new ArrayList();
    for (int i = 0; i < USED.length; i++) {
      String name = USED[i][0].substring(USED[i][0].lastIndexOf('.') + 1);
      try {
        Class type = Class.forName(USED[i][0], false, loader);
        for (int k = 1; k < USED[i].length; k++) if (!has(type, USED[i][k])) out.add(name + "#" + USED[i][k]);
      } catch (ClassNotFoundException e) {
        out.add(name);
      }
    }
    return out;
  }

  private static boolean has(Class type, String member) {
    if (member.startsWith(".")) return declares(type, member.substring(1));
    int slash = member.indexOf('/'), parameters = Integer.parseInt(member.substring(slash + 1));
    String name = member.substring(0, slash);
    if (name.equals("new")) {
      Constructor[] all = type.getConstructors();
      for (int i = 0; i < all.length; i++) if (all[i].getParameterTypes().length == parameters) return true;
      return false;
    }
    Method[] all = type.getMethods();
    for (int i = 0; i < all.length; i++) if (all[i].getName().equals(name) && all[i].getParameterTypes().length == parameters) return true;
    return false;
  }

  private static boolean declares(Class type, String field) {
    try {
      type.getDeclaredField(field);
      return true;
    } catch (NoSuchFieldException e) {
      return false;
    }
  }

  /** What the Spark of `loader` lacks and what to do about it, as a sentence; empty if it lacks nothing. */
  public String complaint(ClassLoader loader) {
    List missing = missing(loader);
    return missing.isEmpty() ? "" : "this version of Spark has no " + String.join(", ", (String[]) missing.toArray(new String[0])) + ", which Spark "
        + VERSIONS + " have. Upgrade lance-spark, or use one of these versions";
  }

  /** Whether Spark has everything that is listed. If not, a warning says so, once. */
  static synchronized boolean areKnown() {
    if (known == null) {
      String complaint = new SparkInternals().complaint(SparkInternals.class.getClassLoader());
      known = Boolean.valueOf(complaint.isEmpty());
      if (!complaint.isEmpty()) LoggerFactory.getLogger("lance_spark").warn(READ_WHOLE + complaint);
    }
    return known.booleanValue();
  }

  static Object get(Object object, String field) throws Exception { return accessible(object, field).get(object); }
  static void set(Object object, String field, Object value) throws Exception { accessible(object, field).set(object, value); }

  private static Field accessible(Object object, String name) throws Exception {
    Field field = object.getClass().getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }

  /** The constructor's arguments of a case class. `position` finds one by name: their number differs between versions. */
  static Object[] arguments(scala.Product node) {
    Object[] all = new Object[node.productArity()];
    for (int i = 0; i < all.length; i++) all[i] = node.productElement(i);
    return all;
  }

  static int position(scala.Product node, String argument) {
    for (int i = 0; i < node.productArity(); i++) if (node.productElementName(i).equals(argument)) return i;
    throw new IllegalStateException(node.getClass().getName() + " has no argument " + argument);
  }
}
