package lancespark.statements;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.*;
import lancespark.catalog.LanceProcedure;
import lancespark.catalog.NamespaceCatalog;
import lancespark.catalog.Rows;
import lancespark.core.OwnStatement;
import lancespark.core.Session;
import lancespark.core.SessionCatalogs;
import lancespark.core.SparkInternals;
import lancespark.core.SqlNames;
import lancespark.protocol.Json;
import lancespark.source.SessionEntry;
import lancespark.table.LanceTable;
import lancespark.table.LastChange;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.CommandResult;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.execution.SparkSqlParser;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.VariableSubstitution;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A statement of a lance table that Spark does not know, such as OPTIMIZE, before it is analysed. Only then it is known whose table it is: the
 * statement of another table goes to the next parser. What it means is known in Python, see lance_spark.spark.catalog.statements.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
public class LanceStatement extends LogicalPlan implements OwnStatement {
  private static final String[] FIGURES = { "num_affected_rows" };
  private static final String[] FIGURES_OF_MERGE = { "num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows" };
  private static final String PIPELINES = "org.apache.spark.sql.pipelines.";
  private final StatementText statement;
  private final String method;
  private final Object[] given;
  private final ParserInterface next;

  /** `method` of the parser `next` gets the arguments `given` for a statement of another table. */
  public LanceStatement(Object statement, String method, Object[] given, ParserInterface next) {
    this.statement = (StatementText) statement;
    this.method = method;
    this.given = given;
    this.next = next;
  }

  /** The plan of a statement; null if it goes to the next parser at once. */
  public static Object parsed(String method, Object[] given, ParserInterface next) {
    if (given[0] == null) return null;
    String text = (String) given[0];
    // Spark's own parser does this, too.
    if (text.indexOf("${") >= 0) text = new VariableSubstitution().substitute(text);
    StatementText statement = StatementText.of(text);
    if (statement == null || statement.isOfView && isInPipeline()) return null;
    return new LanceStatement(statement, method, given, next);
  }

  /** True for a statement of a declarative pipeline of Spark, whose materialized views are its own. */
  private static boolean isInPipeline() {
    for (StackTraceElement caller : Thread.currentThread().getStackTrace()) if (caller.getClassName().startsWith(PIPELINES)) return true;
    return false;
  }

  public scala.collection.immutable.Seq children() { return scala.collection.immutable.Nil$.MODULE$; }
  public scala.collection.immutable.Seq output() { return scala.collection.immutable.Nil$.MODULE$; }
  public LogicalPlan withNewChildrenInternal(scala.collection.immutable.IndexedSeq children) { return this; }
  public boolean resolved() { return false; }
  public boolean canEqual(Object other) { return other instanceof LanceStatement; }
  public int productArity() { return 4; }

  public Object productElement(int i) {
    if (i == 0) return statement;
    return i == 1 ? method : i == 2 ? (Object) given : next;
  }

  /** The rows of the statement, which runs now, or the plan of the next parser. */
  public LogicalPlan answer() {
    try {
      if (statement.isOfTransaction) return ofTransaction();
      if (statement.isOfView) return ofView();
      if (statement.isOfCatalog) return ofCatalog();
      if (statement.isNoTable) return ofOthers();
      if (!statement.made.isEmpty() && Place.isFileOfOthers(statement.name)) return refused();
      if (statement.changesRows()) return rowChanges();
      Place place = statement.isPath && isOfOthers() ? null : Place.of(statement.name);
      if (place == null) return statement.made.isEmpty() ? handedOver(given) : ofOthers();
      ObjectNode request = statement.json();
      if (!statement.made.isEmpty()) place = place.making(statement.made, request);
      request.set("place", place.json);
      JsonNode meaning;
      try {
        meaning = place.catalog.python.ask("statement", request, place.id, place.id.namespace());
      } catch (Throwable t) {
        throw t instanceof NoSuchTableException && place.entry != null ? SessionEntry.hasNoVersion(place.entry) : t;
      }
      if (meaning.has("sql")) return sparks(meaning, "sql");
      if (meaning.has("copy")) return copied(place, (ObjectNode) Json.at(meaning, "copy"));
      if (meaning.has("rows")) return ColumnValues.append(place.relation(), sparks(meaning, "rows"), meaning);
      LanceProcedure procedure =
          LanceProcedure.named(place.catalog, Identifier.of(new String[] { LanceProcedure.SYSTEM }, Json.at(meaning, "procedure").asText()));
      ObjectNode values = (ObjectNode) Json.at(meaning, "arguments");
      evaluate(Json.at(meaning, "times"), values);
      ObjectNode changed = (ObjectNode) Json.at(meaning, "place");
      JsonNode rows;
      try {
        rows = procedure.rows(changed, values, place.entry);
      } catch (Throwable t) {
        if (!(t instanceof NoSuchTableException) || place.entry == null) throw t;
        SessionEntry.checkNotLost(SessionEntry.of(place.entry));
        if (!Json.at(meaning, "procedure").asText().equals("set_not_null")) throw SessionEntry.hasNoVersion(place.entry);
        setNotNull(place.entry, Json.at(values, "columns"));
        return result(procedure, Json.array(), Json.at(meaning, "columns"));
      }
      return result(procedure, rows, Json.at(meaning, "columns"));
    } catch (Throwable t) {
      Platform.throwException(t);
      return null;
    }
  }

  /** BEGIN TRANSACTION, COMMIT or ROLLBACK in the named catalog, or in the current one. Another extension may know them, too. */
  private LogicalPlan ofTransaction() throws Throwable {
    String name = String.join(".", statement.name);
    CatalogPlugin catalog = name.isEmpty() ? SessionCatalogs.active().currentCatalog() : SessionCatalogs.active().catalog(name);
    if (catalog instanceof NamespaceCatalog) {
      ((NamespaceCatalog) catalog).transaction((String) statement.head.get(0));
      return result(new StructType(), Json.array());
    }
    if (name.isEmpty()) {
      try {
        return handedOver(given);
      } catch (Throwable t) {
        if (!(t instanceof ParseException)) throw t;
      }
    }
    throw new UnsupportedOperationException(String.join(" ", statement.head) + ": the catalog " + catalog.name() + " has no transactions; name one of "
        + "lance_spark.catalog with a root (" + String.join(" ", statement.head) + " IN lance), or make it the current one (USE lance)");
  }

  /** A statement about a materialized view, of a catalog of lance tables. Another extension may have others. */
  private LogicalPlan ofView() throws Throwable {
    if (!Place.isInLanceCatalog(statement.name)) return handedOver(given);
    MaterializedView view = new MaterializedView(statement);
    return result(view.columns(), view.rows());
  }

  /** A statement about views of a catalog of lance tables, or a table that was dropped from it; those of others are Spark's. */
  private LogicalPlan ofCatalog() throws Throwable {
    boolean creates = ((String) statement.head.get(0)).equals("CREATE");
    CatalogPlugin catalog = creates || Place.isInLanceCatalog(statement.name) ? Place.catalog(statement.name) : null;
    if (!(catalog instanceof NamespaceCatalog)) return ((String) statement.head.get(0)).equals("UNDROP") ? ofOthers() : handedOver(given);
    JsonNode answer = new CatalogStatement((NamespaceCatalog) catalog, statement).answer();
    if (answer == null) return handedOver(given);
    return result(CatalogStatement.schema(Json.at(answer, "columns")), (ArrayNode) Json.at(answer, "rows"));
  }

  /** Until the first rows of a table of the session catalog, Spark's catalog has everything of it. */
  private static void setNotNull(Identifier entry, JsonNode columns) throws NoSuchTableException {
    TableChange[] changes = new TableChange[columns.size()];
    for (int i = 0; i < changes.length; i++) {
      String column = Json.at(columns, i).asText();
      List names = SqlNames.parts(column);
      changes[i] = TableChange.updateColumnNullability((String[]) names.toArray(new String[names.size()]), false);
    }
    ((TableCatalog) SessionCatalogs.active().v2SessionCatalog()).alterTable(entry, changes);
  }

  /** True if no lance table is at the path, but another extension may know it. */
  private boolean isOfOthers() {
    if (next instanceof SparkSqlParser) return false;
    try {
      Map options = Collections.singletonMap("path", statement.name.get(1));
      LanceTable.reopened(new CaseInsensitiveStringMap(options));
      return false;
    } catch (Throwable t) {
      return true;
    }
  }

  /** What the next parser makes of a statement about no lance table. Raises our refusal in a catalog of lance tables, and if the parser knows no such statement. */
  private LogicalPlan ofOthers() throws Throwable {
    if (Place.isInLanceCatalog(statement.name)) return refused();
    try {
      return handedOver(given);
    } catch (Throwable t) {
      if (!(t instanceof ParseException)) throw t;
      return refused();
    }
  }

  /** DELETE, UPDATE or MERGE of a lance table returns how many rows it changed, as Delta Lake's do. */
  private LogicalPlan rowChanges() throws Throwable {
    org.apache.spark.sql.classic.SparkSession session = Session.active();
    LogicalPlan analysed = (LogicalPlan) session.sessionState().analyzer().execute(handedOver(given));
    if (!isOfLanceTable(analysed)) return handedOver(given);
    JsonNode before = LastChange.of(session);
    org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows(session, analysed);
    JsonNode change = LastChange.of(session);
    ArrayNode counts = Json.array().add(0).add(0).add(0).add(0);
    if (change != before) counts = (ArrayNode) NamespaceCatalog.ofPaths().python.ask("figures", (ObjectNode) change, Identifier.of(new String[0], ""), new String[0]);
    String[] names = ((String) statement.head.get(0)).equals("MERGE") ? FIGURES_OF_MERGE : FIGURES;
    StructType shown = new StructType();
    ArrayNode row = Json.array();
    for (int i = 0; i < names.length; i++) {
      shown = shown.add(names[i], DataTypes.LongType, true);
      row.add(Json.at(counts, i));
    }
    return result(shown, Json.array().add(row));
  }

  private LogicalPlan copied(Place place, ObjectNode copy) throws Throwable {
    long rows;
    try {
      rows = new FileCopy(place, copy).rows();
    } catch (Throwable t) {
      throw t instanceof NoSuchTableException && place.entry != null ? SessionEntry.hasNoVersion(place.entry) : t;
    }
    StructType shown = new StructType().add("num_affected_rows", DataTypes.LongType, true).add("num_inserted_rows", DataTypes.LongType, true);
    return result(shown, Json.array().add(Json.array().add(rows).add(rows)));
  }

  /** Whether the target of a command, its first part, is a lance table. */
  private static boolean isOfLanceTable(LogicalPlan command) {
    Object target = command.productArity() == 0 ? null : command.productElement(0);
    if (!(target instanceof LogicalPlan)) return false;
    for (Object leaf : CollectionConverters.asJava(((LogicalPlan) target).collectLeaves())) {
      if (leaf instanceof DataSourceV2Relation && LanceTable.scanned(((DataSourceV2Relation) leaf).table()) != null) return true;
    }
    return false;
  }

  private LogicalPlan refused() throws Throwable {
    NamespaceCatalog none = NamespaceCatalog.ofPaths();
    JsonNode meaning = none.python.ask("refusal", statement.json(), Identifier.of(new String[0], ""), new String[0]);
    throw new UnsupportedOperationException(meaning.asText());
  }

  /** The plan of the statement of Spark's own that means the same. */
  private LogicalPlan sparks(JsonNode meaning, String key) throws Throwable {
    Object[] arguments = (Object[]) given.clone();
    arguments[0] = Json.at(meaning, key).asText();
    return handedOver(arguments);
  }

  private LogicalPlan handedOver(Object[] arguments) throws Throwable {
    Method[] methods = ParserInterface.class.getMethods();
    for (int i = 0; i < methods.length; i++) {
      if (!methods[i].getName().equals(method) || methods[i].getParameterTypes().length != arguments.length) continue;
      try {
        return (LogicalPlan) methods[i].invoke(next, arguments);
      } catch (InvocationTargetException e) {
        throw e.getCause();
      }
    }
    throw new NoSuchMethodException(method);
  }

  /** Replaces the text of each time by its value, which depends on the time zone of the session. */
  private static void evaluate(JsonNode times, ObjectNode values) {
    Iterator names = times.fieldNames();
    while (names.hasNext()) {
      String name = (String) names.next(), text = Json.at(times, name).asText();
      Row row = (Row) Session.active().sql("SELECT unix_micros(CAST((" + text + ") AS TIMESTAMP))").collectAsList().get(0);
      if (row.isNullAt(0)) throw new IllegalArgumentException(text + " is not a time");
      values.put(name, row.getLong(0));
    }
  }

  /** The columns of a procedure's rows that the statement shows, as the result of a command, so that Spark does not run it again. */
  private LogicalPlan result(LanceProcedure procedure, JsonNode rows, JsonNode columns) {
    StructType own = procedure.columns(), shown = new StructType();
    ArrayNode all = Json.array();
    for (int i = 0; i < rows.size() && columns.size() > 0; i++) all.add(Json.array());
    for (int k = 0; k < columns.size(); k++) {
      JsonNode column = Json.at(columns, k);
      boolean isText = column.has("text");
      int from = isText ? -1 : own.fieldIndex(Json.at(column, "column").asText());
      DataType type = isText ? DataTypes.StringType : own.fields()[from].dataType();
      shown = shown.add(Json.at(column, "name").asText(), type, isText || own.fields()[from].nullable());
      for (int i = 0; i < all.size(); i++) {
        ((ArrayNode) Json.at(all, i)).add(isText ? Json.at(column, "text") : Json.at(Json.at(rows, i), from));
      }
    }
    return result(shown, all);
  }

  private static LogicalPlan result(StructType shown, ArrayNode rows) {
    scala.collection.immutable.Seq values = CollectionConverters.asScala(Arrays.asList(new Rows(shown, rows).rows())).toSeq();
    org.apache.spark.sql.classic.SparkSession session = Session.active();
    LogicalPlan empty = ((org.apache.spark.sql.classic.Dataset) session.createDataFrame(new ArrayList(), shown)).queryExecution().analyzed();
    LogicalPlan relation = (LogicalPlan) SparkInternals.with((scala.Product) LocalRelation$.MODULE$.apply(empty.output()), "data", values);
    org.apache.spark.sql.classic.Dataset frame = org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows(session, relation);
    return new CommandResult(relation.output(), relation, frame.queryExecution().executedPlan(), values);
  }
}
