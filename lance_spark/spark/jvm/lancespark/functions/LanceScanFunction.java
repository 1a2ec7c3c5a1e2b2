package lancespark.functions;

import java.util.*;
import lancespark.core.Addition;
import lancespark.protocol.Names;
import lancespark.source.Source;
import lancespark.table.LanceTable;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.TableFunctionRegistry;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation$;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/** The table function `lance_scan(path [, filter [, limit]])`. Its arguments are the options of a read; null and absent ones are not given. */
@SuppressWarnings({"rawtypes", "unchecked"})
public class LanceScanFunction implements scala.Function1, Addition {
  static final String NAME = "lance_scan";
  private static final String[] OPTIONS = { "path", "filter", "limit" };

  public LanceScanFunction() {}

  public Object apply(Object arguments) {
    List given = CollectionConverters.asJava((scala.collection.immutable.Seq) arguments);
    if (given.isEmpty() || given.size() > OPTIONS.length) {
      throw new IllegalArgumentException(NAME + " takes the arguments path, filter and limit, of which only the path is required; " + given.size()
          + " were given");
    }
    Map options = new HashMap();
    for (int i = 0; i < given.size(); i++) {
      Expression argument = (Expression) given.get(i);
      if (!argument.foldable()) throw new IllegalArgumentException("the " + OPTIONS[i] + " of " + NAME + " must be a constant");
      Object value = argument.eval(null);
      if (value != null) options.put(OPTIONS[i], value.toString());
    }
    CaseInsensitiveStringMap all = new CaseInsensitiveStringMap(options);
    PythonDataSourceV2 source = Source.unopened();
    LanceTable table = LanceTable.opened(new PythonTable(source, Names.FORMAT, source.inferSchema(all)), all);
    return DataSourceV2Relation$.MODULE$.create(table, scala.Option.empty(), scala.Option.empty());
  }

  public void addTo(SparkSessionExtensions extensions) {
    ExpressionInfo info = new ExpressionInfo(LanceScanFunction.class.getName(), NAME);
    extensions.injectTableFunction(new scala.Tuple3(new FunctionIdentifier(NAME), info, this));
    SearchFunction.addTo(extensions);
  }

  public void addTo(SparkSession session) {
    org.apache.spark.sql.classic.SparkSession classic = (org.apache.spark.sql.classic.SparkSession) (Object) session;
    add(classic, NAME, this);
    SearchFunction.addTo(classic);
  }

  /** Adds a function that the session lacks: Spark would warn of one that replaces another, here itself. */
  static void add(org.apache.spark.sql.classic.SparkSession session, String name, scala.Function1 function) {
    TableFunctionRegistry registry = session.sessionState().tableFunctionRegistry();
    for (FunctionIdentifier known : CollectionConverters.asJava(registry.listFunction())) if (known.funcName().equals(name)) return;
    registry.createOrReplaceTempFunction(name, function, "built-in");
  }
}
