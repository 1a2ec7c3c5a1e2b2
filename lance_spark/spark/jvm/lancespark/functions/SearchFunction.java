package lancespark.functions;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.core.Session;
import lancespark.protocol.Instructions;
import lancespark.protocol.Json;
import lancespark.table.LanceTable;
import lancespark.table.WholeTable;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.CatalystTypeConverters$;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.expressions.NamedArgumentExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation$;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The table functions that search a table, or return its changes. Their first argument, or the one named `table`, is a path or the name of a table or view. What the
 * others mean is known in Python, see lance_spark.spark.options.functions.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
public class SearchFunction implements scala.Function1 {
  private static final String[] NAMES = { "lance_vector_search", "lance_fts", "lance_hybrid_search", "vector_search", "search", "hybrid_search",
      "lance_changes", "table_changes", "table_changes_by_path", "branch_diff" };
  private static final List CHANGES = Arrays.asList("lance_changes", "table_changes", "table_changes_by_path", "branch_diff");
  private static final String TABLE = "table", FILTER = "filter", PREFILTER = "prefilter", FUSE = "fuse";
  private final String name;

  public SearchFunction() { this(NAMES[0]); }

  private SearchFunction(String name) { this.name = name; }

  public Object apply(Object arguments) {
    List positional = new ArrayList();
    Map named = new LinkedHashMap();
    for (Expression argument : CollectionConverters.asJava((scala.collection.immutable.Seq<Expression>) arguments)) {
      boolean isNamed = argument instanceof NamedArgumentExpression;
      Expression value = isNamed ? ((NamedArgumentExpression) argument).value() : argument;
      String shown = isNamed ? ((NamedArgumentExpression) argument).key() : "argument " + (positional.size() + 1);
      if (!value.foldable()) throw new IllegalArgumentException("the " + shown + " of " + name + " must be a constant");
      Object found = plain(CatalystTypeConverters$.MODULE$.convertToScala(value.eval(null), value.dataType()));
      if (isNamed) named.put(shown.toLowerCase(Locale.ROOT), found);
      else positional.add(found);
    }
    Object table = positional.isEmpty() ? named.get(TABLE) : positional.get(0);
    if (table == null) throw new IllegalArgumentException(name + " needs the table: its path or its name");
    Object filter = named.get(FILTER);
    if (filter instanceof String) named.put(FILTER, QueriedValues.in((String) filter));
    ObjectNode call = call(positional, named);
    Map options = options(table.toString(), call);
    Instructions.put(options, Instructions.CALL, call);
    LanceTable found = LanceTable.reopened(new CaseInsensitiveStringMap(options));
    return DataSourceV2Relation$.MODULE$.create(found, scala.Option.empty(), scala.Option.empty());
  }

  private ObjectNode call(List positional, Map named) {
    ObjectNode call = Json.object().put("name", name);
    call.set("positional", Json.of(positional));
    call.set("named", Json.of(named));
    Object fuse = named.get(FUSE);
    if (fuse instanceof String) call.put("function", RegisteredFunctions.file((String) fuse));
    return call;
  }

  /** A value of Scala as one that Jackson knows. */
  private static Object plain(Object value) {
    if (value instanceof scala.math.BigDecimal) return ((scala.math.BigDecimal) value).bigDecimal();
    if (value instanceof java.sql.Timestamp) return ((java.sql.Timestamp) value).toInstant().toString();
    if (value == null || value instanceof Number || value instanceof Boolean) return value;
    if (!(value instanceof scala.collection.Seq)) return value.toString();
    List out = new ArrayList();
    for (Object element : CollectionConverters.asJava((scala.collection.Seq<?>) value)) out.add(plain(element));
    return out;
  }

  /** The options of a read of the table: of a path, or those of a table or a view of one, which the call notes. */
  private Map options(String table, ObjectNode call) {
    Map options = new HashMap();
    if (table.indexOf('/') >= 0 || table.indexOf('\\') >= 0) {
      options.put("path", table);
      return options;
    }
    LogicalPlan plan = Session.active().table(table).queryExecution().analyzed();
    SearchedRows rows = SearchedRows.of(plan);
    if (rows != null) {
      boolean hidesRows = rows.filter != null || WholeTable.isOfKeptView(plan);
      if (hidesRows && CHANGES.contains(name)) {
        throw new IllegalArgumentException(name + " shows what has changed in a lance table, of which the view " + table + " may hide rows; write the name of its table");
      }
      call.put("hides_rows", hidesRows);
      options.putAll(all(rows.table));
      if (rows.filter != null) restrict(options, rows.filter);
      return options;
    }
    throw new IllegalArgumentException(name + " takes a lance table, or a view of all columns of one, which " + table + " is not");
  }

  /** Lets a search see only rows that satisfy the conditions of a view. */
  private static void restrict(Map options, String filter) {
    Object own = taken(options, FILTER);
    taken(options, PREFILTER);
    options.put(FILTER, own == null ? filter : "(" + own + "\n) AND " + filter);
    options.put(PREFILTER, "true");
  }

  /** Removes an option, however it is spelt, and returns its value; null if it is not there. */
  private static Object taken(Map options, String name) {
    for (Object key : new ArrayList(options.keySet())) if (((String) key).equalsIgnoreCase(name)) return options.remove(key);
    return null;
  }

  /** The options of a user for a read of a lance table. */
  public static Map options(DataSourceV2Relation relation) { return Instructions.without(all(relation)); }

  private static Map all(DataSourceV2Relation relation) {
    if (!(relation.table() instanceof LanceTable)) return relation.options().asCaseSensitiveMap();
    return ((LanceTable) relation.table()).source(relation.options()).options.asCaseSensitiveMap();
  }

  static void addTo(SparkSessionExtensions extensions) {
    for (int i = 0; i < NAMES.length; i++) {
      ExpressionInfo info = new ExpressionInfo(SearchFunction.class.getName(), NAMES[i]);
      extensions.injectTableFunction(new scala.Tuple3(new FunctionIdentifier(NAMES[i]), info, new SearchFunction(NAMES[i])));
    }
  }

  static void addTo(org.apache.spark.sql.classic.SparkSession session) {
    for (int i = 0; i < NAMES.length; i++) LanceScanFunction.add(session, NAMES[i], new SearchFunction(NAMES[i]));
  }
}
