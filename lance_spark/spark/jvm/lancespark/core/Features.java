package lancespark.core;

import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.*;

/**
 * The parts of the planner, and the internals of Spark beyond the public connector API that each of them uses.
 *
 * Another version of Spark may change any of them. Therefore the lists are checked against the running Spark before a plan is changed, and a test
 * checks them against the compiled classes. What one feature uses costs that feature only: its sources are not compiled, and no others refer to
 * them but by `object`. This class refers to Spark's classes only by name, so it loads in every version.
 */
public class Features {
  /** The versions of Spark that contain everything in the list. */
  public static final String VERSIONS = "4.0, 4.1, 4.2 and 4.3";

  private static final String SQL = "org.apache.spark.sql.", CATALYST = SQL + "catalyst.", LOGICAL = CATALYST + "plans.logical.";
  private static final String V2 = SQL + "execution.datasources.v2.", PYTHON = V2 + "python.";

  private static final String FIELD = "." + (PYTHON + "PythonPartitionReaderFactory$$").replace('.', '$');

  /**
   * What each feature uses and those that it needs do not. Each row has a class and the members in use: `name/2` is a method and `new/2` a
   * constructor with two parameters, `name/2|3` one with two or three, depending on the version; `.name` is a private field.
   * All VERSIONS have them.
   */
  private static final String[][] SCAN = {
    { PYTHON + "PythonTable", ".ds", "name/0", "schema/0", "capabilities/0", "newWriteBuilder/1", "new/3" },
    { PYTHON + "PythonScan" },
    { PYTHON + "PythonBatch", "new/4" },
    { PYTHON + "PythonInputPartition", "pickedPartition/0" },
    { PYTHON + "PythonDataSourceV2", "new/0", "setShortName/1", "source/0", "getOrCreateDataSourceInPython/3", "inferSchema/1",
      ".dataSourceInPython" },
    { PYTHON + "PythonDataSourceCreationResult", "new/2", "dataSource/0", "schema/0" },
    { PYTHON + "UserDefinedPythonDataSource", "createPythonMetrics/0" },
    { PYTHON + "PythonWrite", "new/4", ".ds" },
    { V2 + "DataSourceV2Relation", "table/0", "output/0", "catalog/0", "options/0" },
    { V2 + "DataSourceV2ScanRelation", "relation/0", "scan/0", "output/0" },
    { V2 + "V2ScanRelationPushDown$", "apply/1", ".MODULE$" },
    { CATALYST + "trees.TreeNode", "children/0", "makeCopy/1", "withNewChildren/1" },
    { CATALYST + "rules.Rule", "new/0", "ruleName/0" },
    { LOGICAL + "LogicalPlan" },
    { CATALYST + "expressions.Alias", "child/0", "name/0" },
    { CATALYST + "expressions.Attribute" },
    { CATALYST + "expressions.Cast" },
    { CATALYST + "expressions.ExprId", "equals/1" },
    { CATALYST + "expressions.Expression", "dataType/0" },
    { CATALYST + "expressions.NamedExpression", "exprId/0", "name/0" },
    { CATALYST + "expressions.objects.StaticInvoke", "arguments/0", "functionName/0" },
    { CATALYST + "plans.QueryPlan", "output/0" },
    { LOGICAL + "Aggregate" },
    { LOGICAL + "Filter" },
    { LOGICAL + "LocalRelation" },
    { LOGICAL + "LocalRelation$", "apply/1", ".MODULE$" },
    { LOGICAL + "Project", "children/0", "new/2", "projectList/0" },
    { LOGICAL + "SubqueryAlias" },
    { LOGICAL + "View" },
    { CATALYST + "TableIdentifier", "new/2" },
    { CATALYST + "catalog.SessionCatalog", "getTableMetadata/1" },
    { CATALYST + "catalog.CatalogTable", "comment/0", "properties/0", "provider/0", "schema/0", "storage/0", "tableType/0" },
    { CATALYST + "catalog.CatalogTableType", "name/0" },
    { CATALYST + "catalog.CatalogStorageFormat", "properties/0", "locationUri/0" },
    { SQL + "internal.connector.SupportsMetadata" },
    { SQL + "internal.SessionState", "catalog/0" },
    { SQL + "classic.SparkSession", "sessionState/0", "sparkContext/0" },
    { SQL + "classic.SparkSession$", "active/0", ".MODULE$" },
    { "org.apache.spark.unsafe.Platform", "throwException/1" },
  };

  private static final String[][] CONDITIONS = {
    { CATALYST + "expressions.Expression", "sql/0", "dataType/0" },
    { CATALYST + "expressions.Literal", "new/2", "value/0" },
    { CATALYST + "expressions.SpecializedGetters", "get/2", "isNullAt/1" },
    { CATALYST + "util.ArrayData", "numElements/0" },
    { CATALYST + "expressions.And", "new/2" },
    { CATALYST + "expressions.ArrayContains" },
    { CATALYST + "expressions.ArraysOverlap" },
    { CATALYST + "expressions.Cast" },
    { CATALYST + "expressions.EqualTo" },
    { CATALYST + "expressions.Exists" },
    { CATALYST + "expressions.GetJsonObject" },
    { CATALYST + "expressions.If", "new/3" },
    { CATALYST + "expressions.In" },
    { CATALYST + "expressions.InSubquery" },
    { CATALYST + "expressions.Like", "escapeChar/0" },
    { CATALYST + "expressions.Not" },
    { CATALYST + "expressions.Or" },
    { CATALYST + "expressions.SubqueryExpression$", "hasSubquery/1", ".MODULE$" },
    { LOGICAL + "Filter", "condition/0" },
    { CATALYST + "util.V2ExpressionBuilder", "new/2", "build/0" },
    { SQL + "execution.datasources.DataSourceStrategy$", "normalizeExprs/2", ".MODULE$" },
  };

  private static final String[][] RESOLUTION = {
    { V2 + "DataSourceV2Relation", "identifier/0", "withMetadataColumns/0" },
    { CATALYST + "analysis.UnresolvedAttribute", "nameParts/0" },
    { CATALYST + "analysis.UnresolvedRelation", "clearWritePrivileges/0", "multipartIdentifier/0", "options/0" },
    { CATALYST + "catalog.SessionCatalog", "isTempView/1" },
    { CATALYST + "trees.TreeNode", "collectLeaves/0", "origin/0", "transform/1" },
    { LOGICAL + "InsertIntoStatement", "table/0" },
    { LOGICAL + "LogicalPlan", "childrenResolved/0", "metadataOutput/0", "resolved/0" },
    { SQL + "classic.Dataset", "queryExecution/0" },
    { SQL + "classic.Dataset$", ".MODULE$", "ofRows/2" },
    { SQL + "execution.QueryExecution", "analyzed/0" },
    { SQL + "classic.SparkSession", "version/0" },
    { SQL + "connector.catalog.CatalogManager" },
    { CATALYST + "streaming.StreamingRelationV2", "table/0", "output/0", "catalog/0", "extraOptions/0" },
    { SQL + "internal.BaseSessionStateBuilder$$anon$1", ".extendedResolutionRules", ".hintResolutionRules" },
    { CATALYST + "analysis.Analyzer" },
    { CATALYST + "expressions.Expression", "dataType/0" },
    { CATALYST + "plans.QueryPlan", "expressions/0", "mapExpressions/1", "missingInput/0", "output/0" },
    { SQL + "internal.SessionState", "analyzer/0", "catalogManager/0" },
    { CATALYST + "expressions.Attribute", "metadata/0" },
    { CATALYST + "expressions.NamedExpression", "name/0" },
    { LOGICAL + "Project", "new/2", "projectList/0" },
    { V2 + "DataSourceV2Relation$", ".MODULE$", "create/3" },
    { LOGICAL + "DeleteFromTable" },
    { LOGICAL + "MergeIntoTable", "targetTable/0", "withSchemaEvolution/0" },
    { LOGICAL + "SubqueryAlias", "child/0" },
    { LOGICAL + "UpdateTable" },
    { LOGICAL + "View", "child/0", "isTempView/0", "isTempViewStoringAnalyzedPlan/0" },
    { CATALYST + "expressions.AttributeReference", "dataType/0", "exprId/0", "name/0", "new/6", "nullable/0" },
    { CATALYST + "expressions.AttributeSet", "toSeq/0" },
    { CATALYST + "expressions.NamedExpression$", "newExprId/0", ".MODULE$" },
    { CATALYST + "plans.JoinType", "sql/0" },
    { LOGICAL + "Join", "joinType/0" },
    { LOGICAL + "V2WriteCommand" },
    { CATALYST + "analysis.UnresolvedIdentifier", "nameParts/0" },
    { CATALYST + "trees.Origin", "sqlText/0" },
    { LOGICAL + "TableSpecBase", "provider/0" },
    { LOGICAL + "V2CreateTablePlan", "name/0" },
  };

  private static final String[][] ROW_LEVEL = {
    { CATALYST + "trees.TreeNode", "collectLeaves/0" },
    { CATALYST + "analysis.NamedRelation" },
    { LOGICAL + "V2WriteCommand", "table/0", "query/0" },
    { LOGICAL + "AppendData" },
    { LOGICAL + "AppendData$", "byPosition/3|4", ".MODULE$" },
    { LOGICAL + "MergeRows", "checkCardinality/0", "output/0" },
    { LOGICAL + "WriteDelta", "condition/0", "originalTable/0", "productElement/1", "query/0", "write/0" },
    { CATALYST + "expressions.Expression", "sql/0", "dataType/0" },
    { CATALYST + "plans.QueryPlan", "schema/0", "output/0", "subqueriesAll/0" },
    { CATALYST + "expressions.Alias", "child/0" },
    { CATALYST + "expressions.Ascending$", ".MODULE$" },
    { CATALYST + "expressions.Attribute", "withNullability/1" },
    { CATALYST + "expressions.AttributeReference" },
    { CATALYST + "expressions.Coalesce", "new/1" },
    { CATALYST + "expressions.ExprId", "equals/1" },
    { CATALYST + "expressions.Literal", "new/2", "value/0" },
    { CATALYST + "expressions.NamedExpression", "exprId/0", "name/0" },
    { CATALYST + "expressions.Pmod", "new/2" },
    { CATALYST + "expressions.ShiftRight", "new/2" },
    { CATALYST + "expressions.SortDirection" },
    { CATALYST + "expressions.SortOrder" },
    { CATALYST + "expressions.SortOrder$", ".MODULE$", "apply/3" },
    { CATALYST + "expressions.XxHash64", "new/1" },
    { CATALYST + "plans.JoinType", "sql/0" },
    { LOGICAL + "Join", "condition/0", "joinType/0", "right/0" },
    { LOGICAL + "Project", "child/0", "new/2", "projectList/0" },
    { LOGICAL + "RepartitionByExpression", "new/4" },
    { LOGICAL + "Sort", "new/4" },
  };

  private static final String[][] SESSION_CATALOG = {
    { PYTHON + "PythonWrite", ".shortName" },
    { SQL + "execution.datasources.CreateTempViewUsing", "provider/0" },
    { CATALYST + "analysis.ResolvedIdentifier", "catalog/0", "identifier/0" },
    { CATALYST + "analysis.ResolvedTable", "catalog/0", "identifier/0", "table/0" },
    { LOGICAL + "V2WriteCommand" },
    { LOGICAL + "V2CreateTablePlan", "name/0" },
    { LOGICAL + "CreateTableAsSelect", "writeOptions/0", "tableSpec/0" },
    { LOGICAL + "DescribeRelation", "isExtended/0", "relation/0" },
    { LOGICAL + "ReplaceTable" },
    { LOGICAL + "ReplaceTableAsSelect", "writeOptions/0", "tableSpec/0" },
    { LOGICAL + "TableSpec", "options/0" },
    { LOGICAL + "TableSpecBase", "provider/0", "properties/0" },
    { CATALYST + "TableIdentifier", "database/0", "table/0" },
    { CATALYST + "catalog.SessionCatalog", "externalCatalog/0" },
    { CATALYST + "catalog.ExternalCatalog", "alterTable/1", "alterTableDataSchema/3" },
    { CATALYST + "catalog.CatalogTable", "identifier/0", "tableType/0", "location/0", "schema/0", "comment/0", "collation/0", "stats/0" },
    { CATALYST + "catalog.CatalogTableType", "equals/1" },
    { CATALYST + "catalog.CatalogTableType$", "MANAGED/0", "EXTERNAL/0", ".MODULE$" },
    { CATALYST + "catalog.CatalogUtils$", "stringToURI/1", ".MODULE$" },
    { SQL + "connector.catalog.CatalogV2Util$", ".MODULE$", "applySchemaChanges/4|5" },
  };

  private static final String[][] FUNCTIONS = {
    { CATALYST + "expressions.Expression", "dataType/0", "eval/1", "foldable/0" },
    { CATALYST + "plans.QueryPlan", "output/0" },
    { SQL + "internal.SessionState", "tableFunctionRegistry/0" },
    { SQL + "classic.SparkSession", "table/1" },
    { CATALYST + "CatalystTypeConverters$", "convertToScala/2", ".MODULE$" },
    { CATALYST + "FunctionIdentifier", "new/1", "funcName/0" },
    { CATALYST + "InternalRow" },
    { CATALYST + "analysis.FunctionRegistryBase", "createOrReplaceTempFunction/3", "listFunction/0" },
    { CATALYST + "analysis.TableFunctionRegistry" },
    { CATALYST + "expressions.ExpressionInfo", "new/2" },
    { CATALYST + "expressions.NamedArgumentExpression", "key/0", "value/0" },
    { V2 + "DataSourceV2Relation$", ".MODULE$", "create/3" },
    { SQL + "classic.Dataset", "queryExecution/0" },
    { SQL + "execution.QueryExecution", "analyzed/0" },
  };

  private static final String[][] TEXT = {
    { CATALYST + "trees.TreeNode", "containsPattern/1", "nodeName/0" },
    { CATALYST + "trees.TreePattern$", "SCALA_UDF/0", ".MODULE$" },
    { LOGICAL + "LogicalPlan", "resolved/0" },
    { CATALYST + "plans.QueryPlan", "mapExpressions/1" },
    { SQL + "internal.SessionState", "functionRegistry/0" },
    { CATALYST + "FunctionIdentifier", "new/1", "funcName/0" },
    { CATALYST + "InternalRow" },
    { CATALYST + "analysis.FunctionRegistryBase", "createOrReplaceTempFunction/3", "listFunction/0" },
    { CATALYST + "analysis.FunctionRegistry" },
    { CATALYST + "expressions.Alias" },
    { CATALYST + "expressions.Attribute", "newInstance/0" },
    { CATALYST + "expressions.AttributeReference", "new/6" },
    { CATALYST + "expressions.Cast" },
    { CATALYST + "expressions.ExprId", "equals/1" },
    { CATALYST + "expressions.Expression", "sql/0", "dataType/0", "eval/1", "foldable/0" },
    { CATALYST + "expressions.ExpressionInfo", "new/2" },
    { CATALYST + "expressions.GetStructField", "childSchema/0", "ordinal/0" },
    { CATALYST + "expressions.NamedExpression", "exprId/0", "name/0" },
    { CATALYST + "expressions.NamedExpression$", "newExprId/0", ".MODULE$" },
    { CATALYST + "expressions.Or", "new/2" },
    { CATALYST + "expressions.PlanExpression", "plan/0" },
    { CATALYST + "expressions.ScalaUDF", "new/8", "function/0" },
    { CATALYST + "expressions.SubqueryExpression", "withNewPlan/1" },
    { LOGICAL + "Aggregate", "aggregateExpressions/0", "child/0", "groupingExpressions/0" },
    { LOGICAL + "CTERelationDef", "child/0", "id/0" },
    { LOGICAL + "CTERelationRef", "cteId/0", "output/0" },
    { LOGICAL + "Project", "child/0", "new/2", "projectList/0" },
    { LOGICAL + "Union" },
    { LOGICAL + "WithCTE", "cteDefs/0", "plan/0" },
  };

  private static final String[][] SEARCH = {
    { V2 + "DataSourceV2Relation$", ".MODULE$", "create/3" },
    { SQL + "Row", "get/1" },
    { SQL + "classic.Dataset", "collectAsList/0" },
    { SQL + "classic.Dataset$", "ofRows/2", ".MODULE$" },
    { CATALYST + "InternalRow" },
    { CATALYST + "expressions.UnsafeProjection", "apply/1" },
    { CATALYST + "expressions.UnsafeProjection$", "create/1", ".MODULE$" },
    { CATALYST + "expressions.UnsafeRow", "copy/0" },
  };

  private static final String[][] NEAREST = {
    { "org.apache.spark.api.python.PythonFunction" },
    { CATALYST + "expressions.Alias", "child/0", "new/6" },
    { CATALYST + "expressions.And" },
    { CATALYST + "expressions.Ascending$", ".MODULE$" },
    { CATALYST + "expressions.Attribute", "metadata/0" },
    { CATALYST + "expressions.AttributeReference", "new/6" },
    { CATALYST + "expressions.AttributeSet", "contains/1", "subsetOf/1" },
    { CATALYST + "expressions.Cast", "new/3" },
    { CATALYST + "expressions.ExprId", "equals/1" },
    { CATALYST + "expressions.Expression", "deterministic/0", "nullable/0", "references/0", "sql/0" },
    { CATALYST + "expressions.Generator" },
    { CATALYST + "expressions.GetStructField", "childSchema/0", "new/3", "ordinal/0" },
    { CATALYST + "expressions.If", "new/3" },
    { CATALYST + "expressions.IsNull", "new/1" },
    { CATALYST + "expressions.Literal", "new/2" },
    { CATALYST + "expressions.MonotonicallyIncreasingID", "new/0" },
    { CATALYST + "expressions.NamedExpression", "exprId/0", "qualifier/0" },
    { CATALYST + "expressions.NamedExpression$", ".MODULE$", "newExprId/0" },
    { CATALYST + "expressions.PythonUDF", "new/7" },
    { CATALYST + "expressions.SortDirection" },
    { CATALYST + "expressions.SortOrder" },
    { CATALYST + "expressions.SortOrder$", ".MODULE$", "apply/3" },
    { CATALYST + "expressions.UserDefinedGenerator", "children/0", "function/0", "new/3" },
    { CATALYST + "expressions.VectorCosineSimilarity" },
    { CATALYST + "expressions.VectorInnerProduct" },
    { CATALYST + "expressions.VectorL2Distance" },
    { CATALYST + "expressions.XxHash64", "new/1" },
    { CATALYST + "optimizer.Optimizer" },
    { CATALYST + "plans.JoinType", "sql/0" },
    { CATALYST + "plans.NearestByDirection" },
    { CATALYST + "plans.NearestByDistance$", ".MODULE$" },
    { CATALYST + "plans.QueryPlan", "deterministic/0", "outputSet/0", "references/0", "sameResult/1", "schema/0", "semanticHash/0",
      "transformUpWithSubqueries/1" },
    { LOGICAL + "Aggregate" },
    { LOGICAL + "CTERelationDef", "child/0", "id/0" },
    { LOGICAL + "CTERelationRef", "cteId/0" },
    { LOGICAL + "Filter", "child/0", "condition/0" },
    { LOGICAL + "Generate", "child/0", "generator/0", "generatorOutput/0", "new/6", "output/0" },
    { LOGICAL + "LogicalPlan", "isStreaming/0" },
    { LOGICAL + "MapInArrow", "new/5" },
    { LOGICAL + "NearestByJoin", "approx/0", "direction/0", "joinType/0", "left/0", "numResults/0", "output/0", "rankingExpression/0", "right/0" },
    { LOGICAL + "Project", "child/0", "projectList/0" },
    { LOGICAL + "RepartitionByExpression", "new/4" },
    { LOGICAL + "Sort", "new/4" },
    { CATALYST + "rules.RuleExecutor", "execute/1" },
    { CATALYST + "trees.TreeNode", "collectLeaves/0", "containsPattern/1", "nodeName/0", "transform/1" },
    { CATALYST + "trees.TreePattern$", ".MODULE$", "NEAREST_BY_JOIN/0", "OUTER_REFERENCE/0", "PLAN_EXPRESSION/0" },
    { CATALYST + "util.V2ExpressionBuilder", "build/0", "new/2" },
    { SQL + "classic.Dataset", "queryExecution/0" },
    { SQL + "classic.Dataset$", ".MODULE$", "ofRows/2" },
    { SQL + "execution.QueryExecution", "analyzed/0" },
    { PYTHON + "UserDefinedPythonDataSource", "createPythonFunction/1" },
    { SQL + "internal.SessionState", "optimizer/0", ".planNormalizationRules" },
  };

  private static final String[][] CATALOG = {
    { PYTHON + "PythonDataSourceV2", ".source", ".bitmap$0" },
    { PYTHON + "UserDefinedPythonDataSource", "new/1", "createDataSourceInPython/3", "createPythonFunction/1" },
    { SQL + "connector.catalog.CatalogV2Util", "v2ColumnsToStructType/1" },
    { SQL + "internal.SessionState", "catalogManager/0", "sqlParser/0" },
    { SQL + "internal.SharedState", "cacheManager/0" },
    { SQL + "execution.CacheManager", "isEmpty/0" },
    { SQL + "classic.Catalog", "refreshTable/1" },
    { SQL + "classic.SparkSession", "catalog/0", "sharedState/0" },
    { CATALYST + "InternalRow" },
    { V2 + "DataSourceV2Relation$", ".MODULE$", "create/3" },
    { "org.apache.spark.unsafe.types.UTF8String", "fromString/1", "toString/0" },
    { "org.apache.spark.SparkThrowable" },
    { "org.apache.spark.api.python.PythonFunction" },
    { SQL + "Row", "get/1" },
    { SQL + "classic.Dataset", "collectAsList/0" },
    { SQL + "classic.Dataset$", "ofRows/2", ".MODULE$" },
    { CATALYST + "parser.ParserInterface", "parseMultipartIdentifier/1" },
    { LOGICAL + "DropTable", "child/0" },
    { CATALYST + "analysis.ResolvedIdentifier", "catalog/0" },
    { CATALYST + "analysis.NamespaceAlreadyExistsException", "new/1" },
    { CATALYST + "analysis.NoSuchNamespaceException", "new/1" },
    { CATALYST + "analysis.NoSuchTableException", "new/1" },
    { CATALYST + "analysis.NonEmptyNamespaceException", "new/1" },
    { CATALYST + "analysis.TableAlreadyExistsException", "new/1" },
    { CATALYST + "expressions.GenericInternalRow", "new/1" },
    { CATALYST + "expressions.SpecializedGetters", "getArray/1", "getBoolean/1", "getDouble/1", "getLong/1", "getMap/1", "getUTF8String/1", "isNullAt/1" },
    { CATALYST + "util.ArrayBasedMapData", "new/2" },
    { CATALYST + "util.MapData", "keyArray/0", "numElements/0", "valueArray/0" },
    { CATALYST + "util.ArrayData", "numElements/0" },
    { CATALYST + "util.GenericArrayData", "new/1" },
  };

  private static final String[][] STATEMENTS = {
    { LOGICAL + "LogicalPlan", "new/0", "clone/0", "transformAllExpressionsWithPruning/3", "transformDownWithPruning/3",
      "transformUpWithNewOutput/3", "transformUpWithPruning/3" },
    { LOGICAL + "CommandResult", "new/4" },
    { LOGICAL + "AppendData$", "byPosition/3|4", ".MODULE$" },
    { CATALYST + "rules.RuleId" },
    { SQL + "execution.SparkPlan" },
    { SQL + "execution.SparkSqlParser" },
    { LOGICAL + "LocalRelation", "data/0" },
    { SQL + "internal.SessionState", ".sqlParser" },
    { SQL + "internal.VariableSubstitution", "new/0", "substitute/1" },
    { SQL + "classic.SparkSession", "createDataFrame/2", "sql/1" },
    { SQL + "Row", "getLong/1", "isNullAt/1" },
    { SQL + "execution.QueryExecution", "executedPlan/0" },
  };

  private static final String[][] CHANGELOG = {
    { SQL + "connector.catalog.Changelog" },
    { SQL + "connector.catalog.TableInfo", "columns/0", "constraints/0", "partitions/0", "properties/0" },
    { SQL + "connector.catalog.constraints.Check", "predicateSql/0" },
    { SQL + "connector.catalog.constraints.PrimaryKey", "columns/0" },
    { V2 + "ChangelogTable", "changelog/0" },
  };

  private static final String[][] COLUMNAR = {
    { CATALYST + "InternalRow", "copy/0" },
    { CATALYST + "expressions.SpecializedGetters", "getInt/1" },
    { "org.apache.spark.InterruptibleIterator", "delegate/0" },
    { "org.apache.spark.api.python.BasePythonRunner$ReaderIterator", ".worker" },
    { "org.apache.spark.api.python.PythonWorker", "channel/0" },
    { "org.apache.spark.JobArtifactSet$", "getCurrentJobArtifactState/0", ".MODULE$" },
    { "org.apache.spark.unsafe.Platform", "getByte/2", "getShort/2", "getInt/2", "getLong/2", "getFloat/2", "getDouble/2", "putLong/3",
      "copyMemory/5", "setMemory/3", ".BYTE_ARRAY_OFFSET", ".SHORT_ARRAY_OFFSET", ".INT_ARRAY_OFFSET", ".LONG_ARRAY_OFFSET", ".FLOAT_ARRAY_OFFSET",
      ".DOUBLE_ARRAY_OFFSET" },
    { "org.apache.spark.unsafe.types.UTF8String", "fromAddress/3" },
    { PYTHON + "PythonPartitionReaderFactory", "new/4|5", FIELD + "source", FIELD + "pickledReadFunc", FIELD + "outputSchema",
      FIELD + "jobArtifactUUID" },
    { PYTHON + "PythonCustomMetric$", "pythonMetrics/0", ".MODULE$" },
    { PYTHON + "PythonBatchWrite", ".pythonDataSourceWriter" },
    { PYTHON + "PythonBatchWriterFactory", "inputSchema/0", "jobArtifactUUID/0", "pickledWriteFunc/0", "source/0" },
    { PYTHON + "PythonWriterCommitMessage", "new/1", "pickledMessage/0" },
    { CATALYST + "expressions.GenericInternalRow", "new/1" },
    { CATALYST + "expressions.UnsafeRow", "getSizeInBytes/0" },
    { SQL + "execution.arrow.ArrowConverters$", "toBatchWithSchemaIterator/7", ".MODULE$" },
    { SQL + "execution.arrow.ArrowConverters$ArrowBatchWithSchemaIterator", "next/0" },
    { "org.apache.spark.api.python.PythonFunction", "broadcastVars/0", "command/0", "envVars/0", "pythonExec/0", "pythonIncludes/0", "pythonVer/0" },
    { "org.apache.spark.api.python.SimplePythonFunction", "new/7" },
    { "org.apache.spark.util.AccumulatorV2", "value/0" },
    { "org.apache.spark.util.CollectionAccumulator", "new/0" },
    { "org.apache.spark.util.MetricUtils", "stringValue/3" },
    { PYTHON + "UserDefinedPythonDataSource", "new/1", "dataSourceCls/0", "createMapInBatchEvaluatorFactory/6|7",
      "createPythonTaskMetrics/1" },
    { PYTHON + "UserDefinedPythonDataSource$", "readInputSchema/0", "writeOutputSchema/0", ".MODULE$" },
    { SQL + "execution.metric.SQLMetric", "value/0" },
    { "org.apache.spark.api.python.BasePythonRunner", "funcs/0", ".org$apache$spark$api$python$BasePythonRunner$$daemonModule" },
    { "org.apache.spark.api.python.ChainedPythonFunctions", "funcs/0" },
    { SQL + "execution.python.MapInBatchEvaluatorFactory", "createEvaluator/0" },
    { SQL + "execution.python.MapInBatchEvaluatorFactory$MapInBatchEvaluator$$anon$1", "new/2", "compute/3" },
  };

  private static final String[][] PLANNING = {
    { PYTHON + "UserDefinedPythonDataSource", "new/1", "dataSourceCls/0", "createPythonFunction/1" },
    { PYTHON + "UserDefinedPythonDataSource$", "readInputSchema/0", ".MODULE$" },
    { PYTHON + "UserDefinedPythonDataSourceRunner", "new/4" },
    { PYTHON + "UserDefinedPythonDataSourceReadRunner", "new/4" },
    { PYTHON + "UserDefinedPythonDataSourceWriteRunner", "new/6" },
    { PYTHON + "UserDefinedPythonDataSourceCommitRunner", "new/4" },
    { PYTHON + "PythonDataSourceReadInfo" },
    { PYTHON + "PythonDataSourceWriteInfo" },
    { SQL + "execution.python.PythonPlannerRunner", "workerModule/0", "writeToPython/2", "receiveFromPython/1", "runInPython/1",
      "runInPython$default$1/0" },
    { SQL + "internal.SQLConf", "contains/1" },
    { SQL + "internal.SQLConf$", "get/0", ".MODULE$" },
    { CATALYST + "util.CaseInsensitiveMap" },
    { CATALYST + "util.CaseInsensitiveMap$", "apply/1", ".MODULE$" },
    { "org.apache.spark.JobArtifactSet$", "getCurrentJobArtifactState/0", ".MODULE$" },
    { "org.apache.spark.JobArtifactState", "uuid/0" },
    { "org.apache.spark.api.python.PythonFunction", "accumulator/0", "broadcastVars/0", "envVars/0", "pythonExec/0", "pythonIncludes/0", "pythonVer/0" },
    { "org.apache.spark.api.python.PythonWorker", "channel/0", "selectionKey/0", "selector/0" },
    { "org.apache.spark.api.python.PythonWorkerUtils$", "receiveAccumulatorUpdates/2", "writePythonVersion/2", "writeSparkFiles/3", "writeUTF/2",
      ".MODULE$" },
    { "org.apache.spark.api.python.SpecialLengths$", "END_OF_STREAM/0", ".MODULE$" },
    { "org.apache.spark.util.AccumulatorV2" },
    { "org.apache.spark.util.CollectionAccumulator", "copyAndReset/0", "merge/1" },
  };

  /** The parts of the planner. Each is a folder of sources; "scan", which all others need, is also what is in the planner's own folder. */
  private static final Map FEATURES = new LinkedHashMap();

  static {
    add("scan", "queries read whole lance tables without push-down; to read less, use the options columns, filter and limit", "", SCAN);
    add("conditions", "indexes of lance tables do not answer array_contains, arrays_overlap, LIKE and get_json_object, and conditions may change their order", "", CONDITIONS);
    add("resolution", "DELETE, UPDATE, MERGE, metadata columns, and streams of named lance tables are unknown", "", RESOLUTION);
    add("row_level", "DELETE, UPDATE and MERGE INTO fail on lance tables; use those of LanceTable", "resolution", ROW_LEVEL);
    add("session_catalog", "lance tables of the session catalog cannot be used", "catalog", SESSION_CATALOG);
    add("functions", "lance_scan and the functions that search lance tables are unknown", "", FUNCTIONS);
    add("text", "lance_match, lance_match_phrase and lance_multi_match are unknown in queries", "resolution", TEXT);
    add("search", "the option nearest and the functions that search for vectors run in one task", "", SEARCH);
    add("nearest", "", "resolution", NEAREST);
    add("catalog", "catalogs of lance tables cannot be used", "", CATALOG);
    add("statements", "statements of lance tables such as OPTIMIZE are unknown", "resolution functions catalog row_level", STATEMENTS);
    add("changelog", "", "resolution catalog", CHANGELOG);
    add("planning", "each query starts two Python processes on the driver instead of one", "", PLANNING);
    add("columnar", "scans of lance tables hand over rows and have fewer metrics", "", COLUMNAR);
  }

  public Features() {}

  private static void add(String name, String lost, String needs, String[][] used) { FEATURES.put(name, new Feature(name, lost, needs, used)); }

  static Feature feature(String name) { return (Feature) FEATURES.get(name); }

  /** The names of the features. */
  public List names() { return new ArrayList(FEATURES.keySet()); }

  /** The entries of a feature: classes as `class#`, members as `class#member`. */
  public List used(String feature) {
    String[][] used = feature(feature).used;
    List out = new ArrayList();
    for (int i = 0; i < used.length; i++) {
      out.add(used[i][0] + "#");
      for (int k = 1; k < used[i].length; k++) out.add(used[i][0] + "#" + used[i][k]);
    }
    return out;
  }

  /** The features that a feature needs, directly or not, and itself. */
  public List needs(String feature) { return new ArrayList(feature(feature).needed()); }

  /** The entries of a feature and of those that it needs that are missing in the Spark of `loader`. */
  public List missing(String feature, ClassLoader loader) {
    List out = new ArrayList();
    Iterator needed = feature(feature).needed().iterator();
    while (needed.hasNext()) out.addAll(missing(feature((String) needed.next()).used, loader));
    return out;
  }

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

  static boolean declares(Class type, String field) {
    try {
      type.getDeclaredField(field);
      return true;
    } catch (NoSuchFieldException e) {
      return false;
    }
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

  /** A new object of a class of a feature; null if this Spark lacks what the feature uses. No other source refers to the classes of a feature. */
  public static Object object(String feature, String type) {
    if (!areKnown(feature)) return null;
    try {
      return Class.forName(type).getDeclaredConstructor(new Class[0]).newInstance(new Object[0]);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }
}
