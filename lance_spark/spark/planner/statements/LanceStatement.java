package lancespark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.*;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.CommandResult;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.execution.SparkSqlParser;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation$;
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
public class LanceStatement extends LogicalPlan implements OwnStatement {
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
    return statement == null ? null : new LanceStatement(statement, method, given, next);
  }

  public scala.collection.immutable.Seq children() { return scala.collection.immutable.Nil$.MODULE$; }
  public scala.collection.immutable.Seq output() { return scala.collection.immutable.Nil$.MODULE$; }
  public TreeNode withNewChildrenInternal(scala.collection.immutable.IndexedSeq children) { return this; }
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
      Place place = statement.isPath && isOfOthers() ? null : Place.of(statement.name);
      if (place == null) return handedOver(given);
      ObjectNode request = statement.json();
      if (!statement.made.isEmpty()) place = place.making(statement.made, request);
      request.set("place", place.json);
      JsonNode meaning = place.catalog.python.ask("statement", request, place.id, place.id.namespace());
      if (meaning.has("sql")) return sparks(meaning, "sql");
      if (meaning.has("rows")) return ColumnValues.append(place.relation(), sparks(meaning, "rows"), meaning);
      LanceProcedure procedure =
          LanceProcedure.named(place.catalog, Identifier.of(new String[] { LanceProcedure.SYSTEM }, CatalogPython.at(meaning, "procedure").asText()));
      ObjectNode values = (ObjectNode) CatalogPython.at(meaning, "arguments");
      evaluate(CatalogPython.at(meaning, "times"), values);
      ObjectNode changed = (ObjectNode) CatalogPython.at(meaning, "place");
      String named = place.entry == null ? procedure.nameOf(changed) : LanceProcedure.nameOf(place.entry);
      JsonNode rows;
      try {
        rows = procedure.rows(changed, values, named);
      } catch (Throwable t) {
        if (!(t instanceof NoSuchTableException) || place.entry == null) throw t;
        SessionEntry.checkNotLost(SessionEntry.of(place.entry));
        if (!CatalogPython.at(meaning, "procedure").asText().equals("set_not_null")) throw hasNoVersion(place.entry);
        setNotNull(place.entry, CatalogPython.at(values, "columns"));
        return result(procedure, PlanJson.array(), CatalogPython.at(meaning, "columns"));
      }
      boolean alters = place.entry != null && CatalogPython.at(meaning, "alters").asBoolean();
      TableCatalog entries = !alters ? null : (TableCatalog) Features.object("alteration", "AlteringCatalog");
      if (entries != null) entries.invalidateTable(place.entry);
      return result(procedure, rows, CatalogPython.at(meaning, "columns"));
    } catch (Throwable t) {
      Platform.throwException(t);
      return null;
    }
  }

  private static RuntimeException hasNoVersion(Identifier entry) {
    return new UnsupportedOperationException("the table " + entry + " has no version before its first rows, so there is nothing yet that the statement "
        + "is about; insert rows, and run it again");
  }

  /** Until the first rows of a table of the session catalog, Spark's catalog has everything of it. */
  private static void setNotNull(Identifier entry, JsonNode columns) throws Exception {
    DelegatingCatalogExtension entries = (DelegatingCatalogExtension) Features.object("alteration", "AlteringCatalog");
    if (entries == null) throw hasNoVersion(entry);
    entries.setDelegateCatalog(LancePlanner.session().sessionState().catalogManager().v2SessionCatalog());
    TableChange[] changes = new TableChange[columns.size()];
    for (int i = 0; i < changes.length; i++) {
      String column = CatalogPython.at(columns, i).asText();
      List names = CollectionConverters.asJava((scala.collection.Seq) LancePlanner.session().sessionState().sqlParser().parseMultipartIdentifier(column));
      changes[i] = TableChange.updateColumnNullability((String[]) names.toArray(new String[names.size()]), false);
    }
    entries.alterTable(entry, changes);
  }

  /** True if no lance table is at the path, but another extension may know it. */
  private boolean isOfOthers() {
    if (next instanceof SparkSqlParser) return false;
    try {
      LanceTable.reopened(new CaseInsensitiveStringMap(Collections.singletonMap("path", statement.name.get(1))));
      return false;
    } catch (Throwable t) {
      return true;
    }
  }

  /** The plan of the statement of Spark's own that means the same. */
  private LogicalPlan sparks(JsonNode meaning, String key) throws Throwable {
    Object[] arguments = (Object[]) given.clone();
    arguments[0] = CatalogPython.at(meaning, key).asText();
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
      String name = (String) names.next(), text = CatalogPython.at(times, name).asText();
      Row row = (Row) LancePlanner.session().sql("SELECT unix_micros(CAST((" + text + ") AS TIMESTAMP))").collectAsList().get(0);
      if (row.isNullAt(0)) throw new IllegalArgumentException(text + " is not a time");
      values.put(name, row.getLong(0));
    }
  }

  /** The columns of a procedure's rows that the statement shows, as the result of a command, so that Spark does not run it again. */
  private LogicalPlan result(LanceProcedure procedure, JsonNode rows, JsonNode columns) throws Exception {
    StructType own = procedure.columns(), shown = new StructType();
    ArrayNode all = PlanJson.array();
    for (int i = 0; i < rows.size() && columns.size() > 0; i++) all.add(PlanJson.array());
    for (int k = 0; k < columns.size(); k++) {
      JsonNode column = CatalogPython.at(columns, k);
      boolean isText = column.has("text");
      int from = isText ? -1 : own.fieldIndex(CatalogPython.at(column, "column").asText());
      DataType type = isText ? DataTypes.StringType : own.fields()[from].dataType();
      shown = shown.add(CatalogPython.at(column, "name").asText(), type, isText || own.fields()[from].nullable());
      for (int i = 0; i < all.size(); i++) {
        ((ArrayNode) CatalogPython.at(all, i)).add(isText ? CatalogPython.at(column, "text") : CatalogPython.at(CatalogPython.at(rows, i), from));
      }
    }
    scala.collection.immutable.Seq values = CollectionConverters.asScala(Arrays.asList(new Rows(shown, all).rows())).toSeq();
    org.apache.spark.sql.classic.SparkSession session = LancePlanner.session();
    LogicalPlan empty = ((org.apache.spark.sql.classic.Dataset) session.createDataFrame(new ArrayList(), shown)).queryExecution().analyzed();
    LogicalPlan relation = (LogicalPlan) SparkInternals.with((scala.Product) LocalRelation$.MODULE$.apply(empty.output()), "data", values);
    org.apache.spark.sql.classic.Dataset frame = org.apache.spark.sql.classic.Dataset$.MODULE$.ofRows(session, relation);
    return new CommandResult(relation.output(), relation, frame.queryExecution().executedPlan(), values);
  }
}

/** Where a lance table is: the catalog that reaches it, and what the requests of its procedures say of the table. */
class Place {
  final LanceCatalog catalog;
  final ObjectNode json = PlanJson.object();
  final Identifier id;
  /** The entry of a table of the session catalog, else null. */
  final Identifier entry;
  /** The table as Spark has it; null for a path. */
  private DataSourceV2Relation named;

  private Place(LanceCatalog catalog, String key, JsonNode value, Identifier id, Identifier entry) {
    this.catalog = catalog;
    this.json.set(key, value);
    this.id = id;
    this.entry = entry;
  }

  /** The place of the table, or of the table of a view, with these names; null if it is not a lance table. Raises the error of a LanceCatalog. */
  static Place of(List names) throws Throwable {
    CatalogManager manager = LancePlanner.session().sessionState().catalogManager();
    String first = (String) names.get(0), last = (String) names.get(names.size() - 1);
    boolean isPath = names.size() == 2 && first.equalsIgnoreCase(LancePlanner.SOURCE) && last.indexOf('/') >= 0;
    Map path = Collections.singletonMap("path", last);
    if (isPath && !manager.isCatalogRegistered(first)) return at(path, names, null);
    StringBuilder quoted = new StringBuilder();
    for (int i = 0; i < names.size(); i++) quoted.append(i > 0 ? "." : "").append('`').append(((String) names.get(i)).replace("`", "``")).append('`');
    DataSourceV2Relation relation;
    try {
      relation = SearchFunction.relation(quoted.toString());
    } catch (Throwable t) {
      // To open the path says more than Spark does.
      if (isPath && manager.catalog(first) instanceof LanceCatalog) return at(path, names, null);
      CatalogPlugin named = names.size() > 1 && manager.isCatalogRegistered(first) ? manager.catalog(first) : manager.currentCatalog();
      if (named instanceof LanceCatalog) throw t;
      return null;
    }
    if (relation == null) return null;
    Object catalog = relation.catalog().isEmpty() ? null : relation.catalog().get();
    boolean isOwn = catalog instanceof LanceCatalog;
    Identifier id = isOwn ? (Identifier) relation.identifier().get() : null;
    Place place = isOwn ? new Place((LanceCatalog) catalog, "id", CatalogPython.names(id), id, null) : at(SearchFunction.options(relation), names, entry(relation));
    place.named = relation;
    return place;
  }

  /** The table as the target of a write. */
  DataSourceV2Relation relation() throws Exception {
    if (named != null && named.table() instanceof LanceTable) return named;
    Map options = (Map) new ObjectMapper().convertValue(CatalogPython.at(json, "options"), Map.class);
    LanceTable table = LanceTable.reopened(new CaseInsensitiveStringMap(options));
    return DataSourceV2Relation$.MODULE$.create(table, scala.Option.empty(), scala.Option.empty());
  }

  /** This place, seen from the catalog of a table with these names, which is to be made; its id becomes the value `made` of the request. */
  Place making(List names, ObjectNode request) {
    CatalogManager manager = LancePlanner.session().sessionState().catalogManager();
    String first = (String) names.get(0);
    boolean isNamed = names.size() > 1 && manager.isCatalogRegistered(first);
    boolean isPath = !isNamed && names.size() == 2 && first.equalsIgnoreCase(LancePlanner.SOURCE) && ((String) names.get(1)).indexOf('/') >= 0;
    List id = new ArrayList(isNamed || isPath ? names.subList(1, names.size()) : names);
    if (!isNamed && names.size() == 1) id.addAll(0, Arrays.asList(manager.currentNamespace()));
    request.set("made", CatalogPython.names((String[]) id.toArray(new String[id.size()])));
    if (isPath) return this;
    CatalogPlugin named = isNamed ? manager.catalog(first) : manager.currentCatalog();
    if (named == catalog) return this;
    if (!(named instanceof LanceCatalog) || json.has("id")) {
      throw new IllegalArgumentException("a clone is in the catalog of its table or at a path: write CREATE TABLE lance.`/path` SHALLOW CLONE t");
    }
    return new Place((LanceCatalog) named, "options", CatalogPython.at(json, "options"), this.id, null);
  }

  private static Identifier entry(DataSourceV2Relation relation) {
    boolean isInSession = !relation.catalog().isEmpty() && ((CatalogPlugin) relation.catalog().get()).name().equals("spark_catalog");
    return isInSession ? (Identifier) relation.identifier().get() : null;
  }

  private static Place at(Map options, List names, Identifier entry) {
    return new Place(LanceCatalog.ofPaths(), "options", CatalogPython.texts(options), Identifier.of(new String[0], String.join(".", names)), entry);
  }
}
