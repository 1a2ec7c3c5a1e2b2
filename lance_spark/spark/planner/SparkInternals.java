package lancespark;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.*;
import org.slf4j.LoggerFactory;

/**
 * The list of Spark's internals that the planner uses beyond the public connector API, and the only code, besides CatalogInstall, that accesses
 * private fields.
 *
 * Another version of Spark may change any of them. Therefore the list is checked against the running Spark before a plan is changed, and a
 * test checks it against the compiled classes. This class refers to Spark's classes only by name, so it loads in every version.
 */
public class SparkInternals {
  /** The versions of Spark that contain everything in the list. */
  public static final String VERSIONS = "4.0, 4.1, 4.2 and 4.3";

  private static final String SQL = "org.apache.spark.sql.", CATALYST = SQL + "catalyst.", LOGICAL = CATALYST + "plans.logical.";
  private static final String V2 = SQL + "execution.datasources.v2.", PYTHON = V2 + "python.";

  private static final String FIELD = "." + (PYTHON + "PythonPartitionReaderFactory$$").replace('.', '$');

  /**
   * Each row has a class and the members in use: `name/2` is a method and `new/2` a constructor with two parameters, `name/2|3` one with two or
   * three, depending on the version; `.name` is a private field.
   * All VERSIONS have them.
   */
  private static final String[][] USED = {
    { PYTHON + "PythonTable", ".ds", "name/0", "schema/0", "capabilities/0", "newWriteBuilder/1", "new/3" },
    { PYTHON + "PythonScan" },
    { PYTHON + "PythonBatch", "new/4" },
    { PYTHON + "PythonInputPartition", "pickedPartition/0" },
    { PYTHON + "PythonDataSourceV2", "new/0", "setShortName/1", "source/0", "getOrCreateDataSourceInPython/3", "inferSchema/1", ".dataSourceInPython",
      ".source", ".bitmap$0" },
    { PYTHON + "PythonDataSourceCreationResult", "new/2", "dataSource/0", "schema/0" },
    { PYTHON + "UserDefinedPythonDataSource", "new/1", "createDataSourceInPython/3", "createPythonFunction/1", "createPythonMetrics/0" },
    { PYTHON + "PythonWrite", "new/4", ".ds", ".shortName", ".info", ".isTruncate" },
    { SQL + "execution.datasources.CreateTempViewUsing", "provider/0" },
    { SQL + "execution.command.CreateViewCommand", "plan/0" },
    { V2 + "DataSourceV2Relation", "table/0", "output/0", "catalog/0", "identifier/0", "options/0", "withMetadataColumns/0" },
    { V2 + "DataSourceV2ScanRelation", "relation/0", "scan/0", "output/0" },
    { V2 + "V2ScanRelationPushDown$", "apply/1", ".MODULE$" },
    { CATALYST + "trees.TreeNode", "children/0", "makeCopy/1", "withNewChildren/1", "collectLeaves/0" },
    { CATALYST + "rules.Rule", "new/0", "ruleName/0" },
    { CATALYST + "streaming.StreamingRelationV2", "table/0", "output/0", "catalog/0", "identifier/0", "extraOptions/0" },
    { CATALYST + "analysis.NamedRelation" },
    { CATALYST + "analysis.ResolvedIdentifier", "catalog/0", "identifier/0" },
    { CATALYST + "analysis.ResolvedTable", "catalog/0", "identifier/0", "table/0" },
    { LOGICAL + "LogicalPlan", "new/0", "clone/0", "transformAllExpressionsWithPruning/3", "transformDownWithPruning/3", "transformUpWithNewOutput/3",
      "transformUpWithPruning/3" },
    { LOGICAL + "CommandResult", "new/4" },
    { CATALYST + "rules.RuleId" },
    { SQL + "execution.SparkPlan" },
    { LOGICAL + "AlterTableCommand", "table/0", "changes/0" },
    { LOGICAL + "LocalRelation", "data/0" },
    { LOGICAL + "LocalRelation$", "apply/1", ".MODULE$" },
    { LOGICAL + "V2WriteCommand", "table/0", "query/0" },
    { LOGICAL + "V2CreateTablePlan", "name/0", "partitioning/0" },
    { LOGICAL + "AppendData" },
    { LOGICAL + "AppendData$", "byPosition/3|4", ".MODULE$" },
    { LOGICAL + "MergeRows", "checkCardinality/0", "output/0" },
    { LOGICAL + "TruncateTable", "table/0" },
    { LOGICAL + "WriteDelta", "condition/0", "originalTable/0", "productElement/1", "query/0", "write/0" },
    { LOGICAL + "CreateTableAsSelect", "writeOptions/0" },
    { LOGICAL + "DescribeRelation", "isExtended/0", "relation/0" },
    { LOGICAL + "ReplaceTable" },
    { LOGICAL + "ReplaceTableAsSelect" },
    { LOGICAL + "TableSpec", "options/0" },
    { LOGICAL + "TableSpecBase", "provider/0" },
    { CATALYST + "TableIdentifier", "new/2", "database/0", "table/0" },
    { CATALYST + "catalog.SessionCatalog", "getTableMetadata/1", "externalCatalog/0" },
    { CATALYST + "catalog.ExternalCatalog", "alterTable/1", "alterTableDataSchema/3" },
    { CATALYST + "catalog.CatalogTable", "identifier/0", "tableType/0", "storage/0", "location/0", "schema/0", "properties/0", "comment/0",
      "collation/0", "stats/0" },
    { CATALYST + "catalog.CatalogTableType", "equals/1" },
    { CATALYST + "catalog.CatalogTableType$", "MANAGED/0", "EXTERNAL/0", ".MODULE$" },
    { CATALYST + "catalog.CatalogStorageFormat", "properties/0", "locationUri/0" },
    { CATALYST + "catalog.CatalogUtils$", "stringToURI/1", ".MODULE$" },
    { SQL + "connector.catalog.CatalogV2Util", "v2ColumnsToStructType/1" },
    { SQL + "internal.connector.SupportsMetadata" },
    { SQL + "internal.BaseSessionStateBuilder$$anon$1", ".extendedResolutionRules" },
    { CATALYST + "analysis.Analyzer" },
    { CATALYST + "expressions.Expression", "sql/0", "dataType/0", "eval/1", "foldable/0" },
    { CATALYST + "plans.QueryPlan", "schema/0", "output/0", "subqueriesAll/0" },
    { SQL + "internal.SessionState", "catalog/0", "analyzer/0", "tableFunctionRegistry/0", "catalogManager/0", "sqlParser/0", ".sqlParser" },
    { SQL + "classic.SparkSession", "createDataFrame/2", "sessionState/0", "sparkContext/0", "sql/1", "table/1" },
    { SQL + "classic.SparkSession$", "active/0", ".MODULE$" },
    { "org.apache.spark.unsafe.Platform", "throwException/1" },
    { CATALYST + "CatalystTypeConverters$", "convertToScala/2", ".MODULE$" },
    { CATALYST + "FunctionIdentifier", "new/1", "funcName/0" },
    { CATALYST + "InternalRow" },
    { CATALYST + "analysis.FunctionRegistryBase", "createOrReplaceTempFunction/3", "listFunction/0" },
    { CATALYST + "analysis.TableFunctionRegistry" },
    { CATALYST + "expressions.Alias", "child/0" },
    { CATALYST + "expressions.Ascending$", ".MODULE$" },
    { CATALYST + "expressions.Attribute", "withNullability/1" },
    { CATALYST + "expressions.AttributeReference" },
    { CATALYST + "expressions.Coalesce", "new/1" },
    { CATALYST + "expressions.ExprId", "equals/1" },
    { CATALYST + "expressions.ExpressionInfo", "new/2" },
    { CATALYST + "expressions.Literal", "new/2", "value/0" },
    { CATALYST + "expressions.NamedExpression", "exprId/0", "name/0" },
    { CATALYST + "expressions.NamedArgumentExpression", "key/0", "value/0" },
    { CATALYST + "expressions.Pmod", "new/2" },
    { CATALYST + "expressions.ShiftRight", "new/2" },
    { CATALYST + "expressions.SortDirection" },
    { CATALYST + "expressions.SortOrder" },
    { CATALYST + "expressions.SortOrder$", ".MODULE$", "apply/3" },
    { CATALYST + "expressions.XxHash64", "new/1" },
    { CATALYST + "plans.JoinType", "sql/0" },
    { LOGICAL + "Join", "condition/0", "joinType/0", "right/0" },
    { LOGICAL + "Project", "child/0", "children/0", "new/2", "output/0", "projectList/0" },
    { LOGICAL + "RepartitionByExpression", "new/4" },
    { LOGICAL + "Sort", "new/4" },
    { V2 + "DataSourceV2Relation$", ".MODULE$", "create/3" },
    { LOGICAL + "DeleteFromTable" },
    { LOGICAL + "MergeIntoTable", "targetTable/0", "withSchemaEvolution/0" },
    { LOGICAL + "SubqueryAlias", "child/0" },
    { LOGICAL + "UpdateTable" },
    { LOGICAL + "View", "child/0", "isTempView/0" },
    { "org.apache.spark.unsafe.types.UTF8String", "fromString/1", "toString/0" },
    { "org.apache.spark.SparkThrowable" },
    { "org.apache.spark.api.python.PythonFunction" },
    { SQL + "Row", "get/1", "getLong/1", "isNullAt/1" },
    { SQL + "classic.Dataset", "collectAsList/0", "queryExecution/0" },
    { SQL + "execution.QueryExecution", "analyzed/0", "executedPlan/0" },
    { SQL + "classic.Dataset$", "ofRows/2", ".MODULE$" },
    { CATALYST + "parser.ParserInterface", "parseMultipartIdentifier/1" },
    { CATALYST + "analysis.NamespaceAlreadyExistsException", "new/1" },
    { CATALYST + "analysis.NoSuchNamespaceException", "new/1" },
    { CATALYST + "analysis.NoSuchTableException", "new/1" },
    { CATALYST + "analysis.NonEmptyNamespaceException", "new/1" },
    { CATALYST + "analysis.TableAlreadyExistsException", "new/1" },
    { CATALYST + "expressions.GenericInternalRow", "new/1" },
    { CATALYST + "expressions.SpecializedGetters", "get/2", "getArray/1", "getBoolean/1", "getDouble/1", "getLong/1", "getUTF8String/1", "isNullAt/1" },
    { CATALYST + "util.ArrayBasedMapData", "new/2" },
    { CATALYST + "util.ArrayData", "numElements/0" },
    { CATALYST + "util.GenericArrayData", "new/1" },
    { CATALYST + "expressions.And" },
    { CATALYST + "expressions.ArrayContains" },
    { CATALYST + "expressions.ArraysOverlap" },
    { CATALYST + "expressions.Cast" },
    { CATALYST + "expressions.EqualTo" },
    { CATALYST + "expressions.GetJsonObject" },
    { CATALYST + "expressions.In" },
    { CATALYST + "expressions.Like", "escapeChar/0" },
    { CATALYST + "expressions.Not" },
    { CATALYST + "expressions.Or" },
    { LOGICAL + "Filter", "condition/0" },
    { CATALYST + "util.V2ExpressionBuilder", "new/2", "build/0" },
    { SQL + "execution.datasources.DataSourceStrategy$", "normalizeExprs/2", ".MODULE$" },
  };

  /** What only the columnar hand-over and metrics use. Without it, scans hand over rows. */
  private static final String[][] USED_BY_COLUMNAR = {
    { "org.apache.spark.InterruptibleIterator", "delegate/0" },
    { "org.apache.spark.api.python.BasePythonRunner$ReaderIterator", ".worker" },
    { "org.apache.spark.api.python.PythonWorker", "channel/0" },
    { "org.apache.spark.JobArtifactSet$", "getCurrentJobArtifactState/0", ".MODULE$" },
    { "org.apache.spark.unsafe.Platform", "getByte/2", "getShort/2", "getInt/2", "getLong/2", "getFloat/2", "getDouble/2", "putLong/3",
      "copyMemory/5", "setMemory/3", ".BYTE_ARRAY_OFFSET", ".SHORT_ARRAY_OFFSET", ".INT_ARRAY_OFFSET", ".LONG_ARRAY_OFFSET",
      ".FLOAT_ARRAY_OFFSET", ".DOUBLE_ARRAY_OFFSET" },
    { "org.apache.spark.unsafe.types.UTF8String", "fromAddress/3" },
    { PYTHON + "PythonPartitionReaderFactory", "new/4|5", FIELD + "source", FIELD + "pickledReadFunc", FIELD + "outputSchema", FIELD + "jobArtifactUUID" },
    { PYTHON + "PythonCustomMetric$", "pythonMetrics/0", ".MODULE$" },
    { PYTHON + "PythonBatchWriterFactory", "inputSchema/0", "jobArtifactUUID/0", "pickledWriteFunc/0", "source/0" },
    { PYTHON + "PythonWriterCommitMessage", "new/1", "pickledMessage/0" },
    { CATALYST + "expressions.GenericInternalRow", "new/1" },
    { CATALYST + "expressions.UnsafeRow", "getSizeInBytes/0" },
    { "org.apache.spark.api.python.PythonFunction", "broadcastVars/0", "command/0", "envVars/0", "pythonExec/0", "pythonIncludes/0", "pythonVer/0" },
    { "org.apache.spark.api.python.SimplePythonFunction", "new/7" },
    { "org.apache.spark.util.AccumulatorV2", "value/0" },
    { "org.apache.spark.util.CollectionAccumulator", "new/0" },
    { "org.apache.spark.util.MetricUtils", "stringValue/3" },
    { PYTHON + "UserDefinedPythonDataSource", "dataSourceCls/0", "createMapInBatchEvaluatorFactory/6|7", "createPythonTaskMetrics/1" },
    { PYTHON + "UserDefinedPythonDataSource$", "readInputSchema/0", "writeOutputSchema/0", ".MODULE$" },
    { SQL + "execution.metric.SQLMetric", "value/0" },
    { "org.apache.spark.api.python.BasePythonRunner", "funcs/0", ".org$apache$spark$api$python$BasePythonRunner$$daemonModule" },
    { "org.apache.spark.api.python.ChainedPythonFunctions", "funcs/0" },
    { SQL + "execution.python.MapInBatchEvaluatorFactory", "createEvaluator/0" },
    { SQL + "execution.python.MapInBatchEvaluatorFactory$MapInBatchEvaluator$$anon$1", "new/2", "compute/3" },
  };

  private static final String READ_WHOLE = "queries read whole lance tables without push-down; to read less, use the options columns, filter and limit: ";
  private static Boolean known = null;

  public SparkInternals() {}

  /** All entries: classes as `class#`, members as `class#member`. */
  public List used() {
    List out = entries(USED);
    out.addAll(entries(USED_BY_COLUMNAR));
    return out;
  }

  private static List entries(String[][] used) {
    List out = new ArrayList();
    for (int i = 0; i < used.length; i++) {
      out.add(used[i][0] + "#");
      for (int k = 1; k < used[i].length; k++) out.add(used[i][0] + "#" + used[i][k]);
    }
    return out;
  }

  /** The entries that are missing in the Spark of `loader`, without those of the columnar hand-over. */
  public List missing(ClassLoader loader) { return missing(USED, loader); }

  private static List missing(String[][] used, ClassLoader loader) {
    List out = new ArrayList();
    for (int i = 0; i < used.length; i++) {
      String name = used[i][0].substring(used[i][0].lastIndexOf('.') + 1);
      try {
        Class type = Class.forName(used[i][0], false, loader);
        for (int k = 1; k < used[i].length; k++) if (!has(type, used[i][k])) out.add(name + "#" + used[i][k]);
      } catch (ClassNotFoundException e) {
        out.add(name);
      }
    }
    return out;
  }

  private static boolean has(Class type, String member) {
    if (member.startsWith(".")) return declares(type, member.substring(1));
    String name = member.substring(0, member.indexOf('/'));
    List parameters = Arrays.asList(member.substring(name.length() + 1).split("\\|"));
    if (name.equals("new")) {
      Constructor[] all = type.getConstructors();
      for (int i = 0; i < all.length; i++) if (parameters.contains("" + all[i].getParameterTypes().length)) return true;
      return false;
    }
    Method[] all = type.getMethods();
    for (int i = 0; i < all.length; i++) {
      if (all[i].getName().equals(name) && parameters.contains("" + all[i].getParameterTypes().length)) return true;
    }
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

  /** A sentence with the entries that the Spark of `loader` lacks and what to do; empty if it lacks none. */
  public String complaint(ClassLoader loader) {
    List missing = missing(loader);
    return missing.isEmpty() ? "" : "this version of Spark lacks " + String.join(", ", (String[]) missing.toArray(new String[0])) + ", which Spark "
        + VERSIONS + " have. Upgrade lance-spark, or use one of these versions";
  }

  /** What the Spark of `loader` lacks for the columnar hand-over; empty if it lacks nothing. */
  public String columnarComplaint(ClassLoader loader) {
    List missing = missing(USED_BY_COLUMNAR, loader);
    return missing.isEmpty() ? "" : "this version of Spark lacks " + String.join(", ", (String[]) missing.toArray(new String[0]));
  }

  /** True if Spark has all entries. Otherwise logs one warning. */
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
    for (Class type = object.getClass(); type != null; type = type.getSuperclass()) {
      if (!declares(type, name)) continue;
      Field field = type.getDeclaredField(name);
      field.setAccessible(true);
      return field;
    }
    throw new NoSuchFieldException(object.getClass().getName() + "." + name);
  }

  /** The constructor arguments of a case class. */
  static Object[] arguments(scala.Product value) {
    Object[] all = new Object[value.productArity()];
    for (int i = 0; i < all.length; i++) all[i] = value.productElement(i);
    return all;
  }

  /** An argument by name, since versions differ in the number of arguments. */
  static Object argument(scala.Product value, String name) { return value.productElement(position(value, name)); }

  /** A copy of a case class with one argument replaced; a plan node keeps its tags. */
  static scala.Product with(scala.Product value, String name, Object argument) {
    Object[] all = arguments(value);
    all[position(value, name)] = argument;
    return copy(value, all);
  }

  static scala.Product copy(scala.Product value, Object[] arguments) {
    try {
      Method[] methods = value.getClass().getMethods();
      for (int i = 0; i < methods.length; i++) {
        boolean copies = methods[i].getName().equals("makeCopy") && methods[i].getParameterTypes().length == 1;
        if (copies) return (scala.Product) methods[i].invoke(value, new Object[] { arguments });
      }
      return (scala.Product) value.getClass().getConstructors()[0].newInstance(arguments);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  /** The result of a method of a companion object: its first arguments are given, versions differ in the others, which are Spark's defaults. */
  static Object made(Object companion, String name, Object[] given) throws Exception {
    Method[] methods = companion.getClass().getMethods();
    for (int i = 0; i < methods.length; i++) {
      if (!methods[i].getName().equals(name)) continue;
      Object[] all = Arrays.copyOf(given, methods[i].getParameterTypes().length);
      for (int k = given.length; k < all.length; k++) {
        all[k] = companion.getClass().getMethod(name + "$default$" + (k + 1), new Class[0]).invoke(companion, new Object[0]);
      }
      return methods[i].invoke(companion, all);
    }
    throw new NoSuchMethodException(companion.getClass().getName() + "." + name);
  }

  private static int position(scala.Product value, String name) {
    for (int i = 0; i < value.productArity(); i++) if (value.productElementName(i).equals(name)) return i;
    throw new IllegalStateException(value.getClass().getName() + " has no argument " + name);
  }
}
