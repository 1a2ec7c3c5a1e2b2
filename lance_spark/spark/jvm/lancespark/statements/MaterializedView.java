package lancespark.statements;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.catalog.NamespaceCatalog;
import lancespark.core.Session;
import lancespark.core.SessionCatalogs;
import lancespark.core.SparkInternals;
import lancespark.functions.SearchFunction;
import lancespark.protocol.Json;
import lancespark.protocol.Names;
import lancespark.table.LanceTable;
import lancespark.table.RowLevelWrite;
import lancespark.table.TakingAnyRows;
import org.apache.spark.sql.CreateTableWriter;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.AppendData$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation$;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * CREATE, REFRESH, EXPLAIN REFRESH, VERIFY and DROP MATERIALIZED VIEW, and SHOW MATERIALIZED VIEWS. What a view remembers, and what a refresh must read, is known in Python: see
 * lance_spark.spark.catalog.materialized_views. Here are the rows, which Spark computes.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
class MaterializedView {
  private static final int TRIES = 20, INSERT = 3;
  private static final List FIRST_WORDS = Arrays.asList(new String[] { "SELECT", "WITH", "FROM", "TABLE", "(" });
  private static final String TOUCHED = "__key_";
  private final SparkSession session = Session.active();
  private final StatementText statement;

  MaterializedView(StatementText statement) { this.statement = statement; }

  /** The columns of the answer. */
  StructType columns() {
    String[] texts = {}, numbers = {}, last = {};
    if (isOf("EXPLAIN")) {
      texts = new String[] { "input", "changes" };
      numbers = new String[] { "from_version", "to_version" };
      last = new String[] { "refresh", "reason" };
    } else if (isOf("REFRESH")) {
      numbers = new String[] { "num_deleted_rows", "num_inserted_rows", "version" };
      last = new String[] { "refresh", "reason" };
    } else if (isOf("VERIFY")) {
      numbers = new String[] { "rows_checked", "missing_rows", "unexpected_rows" };
    } else if (isOf("SHOW")) {
      texts = new String[] { "namespace", "view" };
      numbers = new String[] { "version", "versions_behind", "rows_pending" };
      last = new String[] { "query" };
    }
    StructType shown = new StructType();
    for (String name : texts) shown = shown.add(name, DataTypes.StringType, true);
    for (String name : numbers) shown = shown.add(name, DataTypes.LongType, true);
    for (String name : last) shown = shown.add(name, DataTypes.StringType, true);
    return shown;
  }

  /** Does what the statement says, and returns the rows of the answer. */
  ArrayNode rows() throws Throwable {
    if (isOf("CREATE")) return created();
    if (isOf("DROP")) return dropped();
    if (isOf("SHOW")) return listed();
    if (isOf("VERIFY")) return verified();
    return isOf("EXPLAIN") ? explained() : refreshed();
  }

  private boolean isOf(String verb) { return statement.head.get(0).equals(verb); }
  private boolean says(String word) { return statement.head.contains(word); }

  // Statements.

  private ArrayNode created() throws Throwable {
    String query = statement.after("AS");
    if (query == null || query.isEmpty()) throw wrong("write CREATE MATERIALIZED VIEW v AS SELECT ..");
    boolean isThere = session.catalog().tableExists(statement.named());
    if (isThere && says("IF")) return Json.array();
    ObjectNode request = Json.object().put("query", query).put("makes", true).put("current", SessionCatalogs.active().currentCatalog().name());
    request.set("namespace", Json.names(SessionCatalogs.active().currentNamespace()));
    if (isThere && says("REPLACE")) request.set("place", place().json);
    ViewQuery view = analysed(request);
    request.set("shape", shape(view));
    JsonNode plan = catalog().python.ask("view_plan", request, Identifier.of(new String[0], statement.named()), new String[0]);
    CreateTableWriter writer = writer(view, plan);
    if (says("REPLACE")) writer.createOrReplace();
    else writer.create();
    return Json.array();
  }

  private ArrayNode dropped() throws Throwable {
    if (says("IF") && !session.catalog().tableExists(statement.named())) return Json.array();
    Place place = place();
    ask(place, "view_query", Json.object());
    session.sql("DROP TABLE " + statement.named());
    return Json.array();
  }

  private ArrayNode explained() throws Throwable {
    if (!"".equals(statement.after(""))) throw wrong("write EXPLAIN REFRESH MATERIALIZED VIEW v");
    Place place = place();
    JsonNode request = ask(place, "view_query", Json.object());
    JsonNode plan = planned(place, request, analysed(request), false);
    ArrayNode rows = Json.array();
    for (JsonNode input : Json.at(plan, "inputs")) {
      ArrayNode row = Json.array().add(Json.at(input, "name")).add(Json.at(input, "shown")).add(Json.at(input, "old")).add(Json.at(input, "version"));
      rows.add(row.add(Json.at(plan, "mode")).add(Json.at(plan, "why")));
    }
    return rows;
  }

  private ArrayNode listed() {
    if (!"".equals(statement.after(""))) throw wrong("write SHOW MATERIALIZED VIEWS IN lance.ns");
    boolean isNamed = SessionCatalogs.active().isCatalogRegistered((String) statement.name.get(0));
    List parts = isNamed ? statement.name.subList(1, statement.name.size()) : statement.name;
    return (ArrayNode) catalog().python.ask("view_list", Json.object(), (String[]) parts.toArray(new String[parts.size()]));
  }

  /** Computes the rows again, of the versions of the inputs that the view is of, or a sample of them, and counts those that differ. */
  private ArrayNode verified() throws Throwable {
    String rest = statement.after(""), share = statement.after("SAMPLE");
    double percent = 100;
    if (share != null && share.toUpperCase(Locale.ROOT).endsWith("PERCENT")) percent = Double.parseDouble(share.substring(0, share.length() - 7).trim());
    else if (!"".equals(rest)) throw wrong("write VERIFY MATERIALIZED VIEW v, or VERIFY MATERIALIZED VIEW v SAMPLE 5 PERCENT");
    Place place = place();
    JsonNode request = ask(place, "view_query", Json.object());
    ViewQuery view = analysed(request);
    if (view.inputs.size() != Json.at(request, "inputs").size()) throw wrong("its query reads other tables than the last refresh; REFRESH it first");
    for (Attribute column : CollectionConverters.asJava(view.plan.output())) {
      if (ViewQuery.hasMap(column.dataType())) throw new UnsupportedOperationException("VERIFY MATERIALIZED VIEW: Spark cannot compare the map in the column " + column.name());
    }
    Map options = SearchFunction.options(place.relation());
    options = new HashMap(options);
    options.put("version", Json.at(request, "version").asText());
    Dataset expected = rows(whole(view, request));
    String[] columns = expected.columns();
    for (int i = 0; i < columns.length; i++) columns[i] = quoted(columns[i]);
    Dataset found = (Dataset) rows(scan(options)).selectExpr(columns);
    if (percent < 100) {
      String[] by = Json.at(request, "has_row").asBoolean() ? new String[] { ViewQuery.ROW } : columns;
      String chosen = "pmod(xxhash64(" + String.join(", ", by) + "), 1000000) < " + Math.round(percent * 10000);
      expected = (Dataset) expected.where(chosen);
      found = (Dataset) found.where(chosen);
    }
    expected.persist();
    try {
      return Json.array().add(Json.array().add(expected.count()).add(expected.exceptAll(found).count()).add(found.exceptAll(expected).count()));
    } finally {
      expected.unpersist();
    }
  }

  private static String quoted(String name) { return "`" + name.replace("`", "``") + "`"; }

  private ArrayNode refreshed() throws Throwable {
    String rest = statement.after("");
    boolean isFull = "FULL".equalsIgnoreCase(rest);
    if (!isFull && !rest.isEmpty()) throw wrong("write REFRESH MATERIALIZED VIEW v, or REFRESH MATERIALIZED VIEW v FULL");
    for (int i = 0; i < TRIES; i++) {
      Place place = place();
      JsonNode request = ask(place, "view_query", Json.object());
      ViewQuery view = analysed(request);
      JsonNode plan = planned(place, request, view, isFull);
      if (Json.at(plan, "mode").asText().equals("none")) return answer(plan, Json.at(plan, "end"));
      if (Json.at(plan, "replaces").asBoolean()) writer(view, plan).replace();
      else write(place, view, plan);
      JsonNode end = ask(place, "view_end", Json.object().put("number", Json.at(plan, "number").asText()));
      if (Json.at(end, "done").asBoolean()) return answer(plan, end);
    }
    throw new IllegalStateException("REFRESH MATERIALIZED VIEW: others refreshed the view first in all " + TRIES + " tries; run the statement again");
  }

  private static ArrayNode answer(JsonNode plan, JsonNode end) {
    ArrayNode row = Json.array().add(Json.at(end, "deleted")).add(Json.at(end, "inserted")).add(Json.at(end, "version"));
    return Json.array().add(row.add(Json.at(plan, "mode")).add(Json.at(plan, "why")));
  }

  private static RuntimeException wrong(String advice) { return new IllegalArgumentException("the statement about a materialized view is wrong; " + advice); }

  private NamespaceCatalog catalog() {
    SessionCatalogs manager = SessionCatalogs.active();
    boolean isNamed = manager.isCatalogRegistered((String) statement.name.get(0));
    CatalogPlugin catalog = isNamed ? manager.catalog((String) statement.name.get(0)) : manager.currentCatalog();
    if (catalog instanceof NamespaceCatalog) return (NamespaceCatalog) catalog;
    throw new UnsupportedOperationException("a materialized view is made in a catalog of lance_spark.catalog, and " + catalog.name() + " is another one");
  }

  private Place place() throws Throwable {
    Place place = Place.of(statement.name);
    if (place == null) throw new UnsupportedOperationException(statement.named() + " is not a lance table, so it is no materialized view");
    return place;
  }

  private static JsonNode ask(Place place, String operation, ObjectNode request) {
    request.set("place", place.json);
    return place.catalog.python.ask(operation, request, place.id, place.id.namespace());
  }

  private JsonNode planned(Place place, JsonNode known, ViewQuery view, boolean isFull) {
    ObjectNode request = Json.object().put("full", isFull);
    for (String name : new String[] { "query", "current", "namespace" }) request.set(name, Json.at(known, name));
    request.set("shape", shape(view));
    return ask(place, "view_plan", request);
  }

  /** What Python knows of the query, and of the settings that its values depend on. */
  private ObjectNode shape(ViewQuery view) {
    ObjectNode shape = view.json();
    shape.set("settings", Json.object().put("time zone", session.sessionState().conf().sessionLocalTimeZone()).put("ANSI mode", String.valueOf(session.sessionState().conf().ansiEnabled())));
    return shape;
  }

  /** The query, whose names are those in the catalog and namespace of the one who made the view. */
  private ViewQuery analysed(JsonNode request) throws Exception {
    String query = Json.at(request, "query").asText();
    String first = query.startsWith("(") ? "(" : query.split("\\W", 2)[0].toUpperCase(Locale.ROOT);
    if (!FIRST_WORDS.contains(first)) throw wrong("a view is made of a query, such as SELECT ..");
    SessionCatalogs manager = SessionCatalogs.active();
    String now = used(manager.currentCatalog().name(), manager.currentNamespace());
    JsonNode names = Json.at(request, "namespace");
    String[] namespace = new String[names.size()];
    for (int i = 0; i < namespace.length; i++) namespace[i] = Json.at(names, i).asText();
    String then = used(Json.at(request, "current").asText(), namespace);
    if (!then.equals(now)) session.sql(then);
    try {
      LogicalPlan parsed = session.sessionState().sqlParser().parsePlan(query);
      return new ViewQuery(((Dataset) Dataset$.MODULE$.ofRows(session, parsed)).queryExecution().analyzed());
    } finally {
      if (!then.equals(now)) session.sql(now);
    }
  }

  private static String used(String catalog, String[] namespace) {
    StringBuilder text = new StringBuilder("USE " + quoted(catalog));
    for (int i = 0; i < namespace.length; i++) text.append('.').append(quoted(namespace[i]));
    return text.toString();
  }

  // Rows.

  private CreateTableWriter writer(ViewQuery view, JsonNode plan) throws Exception {
    CreateTableWriter writer = (CreateTableWriter) rows(whole(view, plan)).writeTo(statement.named());
    JsonNode properties = Json.at(plan, "properties");
    for (Iterator names = properties.fieldNames(); names.hasNext();) {
      String name = (String) names.next();
      writer = (CreateTableWriter) writer.tableProperty(name, Json.at(properties, name).asText());
    }
    return writer;
  }

  private Dataset rows(LogicalPlan plan) { return (Dataset) Dataset$.MODULE$.ofRows(session, plan); }

  private LogicalPlan whole(ViewQuery view, JsonNode plan) throws Exception {
    Scans scans = new Scans(view, plan);
    return view.over(scans.at("version"), scans.row);
  }

  /** Commits the rows that leave the view and that come to it, with what it remembers, as one version. */
  private void write(Place place, ViewQuery view, JsonNode plan) throws Exception {
    Map options = SearchFunction.options(place.relation());
    Map addressed = new HashMap(options);
    addressed.put(Names.WITH_ROW_ADDRESS, "true");
    addressed.put("version", Json.at(plan, "based_on").asText());
    Dataset old = rows(scan(addressed));
    if (Json.at(plan, "mode").asText().equals("full")) {
      write(options, plan, old, rows(whole(view, plan)));
      return;
    }
    Scans scans = new Scans(view, plan);
    if (scans.addsOnly) {
      write(options, plan, old.where("false"), rows(view.over(scans.with(0, "version", scans.feed(0, true)), null)));
      return;
    }
    Dataset touched = scans.row == null ? scans.keys() : scans.rowIds();
    touched.persist();
    try {
      TouchedUnits units = new TouchedUnits(touched);
      write(options, plan, rows(units.of(old.queryExecution().analyzed(), columnsOf(view, old))), scans.anew(units));
    } finally {
      touched.unpersist();
    }
  }

  /** The columns of a view that tell its units apart. */
  private static List columnsOf(ViewQuery view, Dataset old) {
    List columns = new ArrayList();
    LogicalPlan plan = old.queryExecution().analyzed();
    for (Object name : view.keys) columns.add(ViewQuery.column(plan, (String) name));
    if (columns.isEmpty()) columns.add(ViewQuery.column(plan, ViewQuery.ROW));
    return columns;
  }

  private void write(Map options, JsonNode plan, Dataset gone, Dataset rows) throws Exception {
    String[] added = { INSERT + " AS " + Names.ROW_OPERATION, "CAST(NULL AS BIGINT) AS " + Names.ROW_ADDRESS, "*" };
    String[] deleted = { "1 AS " + Names.ROW_OPERATION, Names.ROW_ADDRESS };
    LogicalPlan delta = ((Dataset) ((Dataset) rows.selectExpr(added)).unionByName((Dataset) gone.selectExpr(deleted), true)).queryExecution().analyzed();
    LanceTable table = LanceTable.reopened(new CaseInsensitiveStringMap(options));
    DataSourceV2Relation relation = DataSourceV2Relation$.MODULE$.create(table, scala.Option.empty(), scala.Option.empty());
    ObjectNode command = Json.object().put("kind", "REFRESH").put("condition", "").put("version", Json.at(plan, "based_on").asLong());
    command.put("identity", Json.at(plan, "identity").asText()).put("declared", table.schema().json());
    command.set("noted", Json.at(plan, "properties"));
    RowLevelWrite write = new RowLevelWrite(table, table.source(relation.options()), command, delta.schema());
    Object target = SparkInternals.with(relation, "table", new TakingAnyRows(table));
    Object append = SparkInternals.made(AppendData$.MODULE$, "byPosition", new Object[] { target, delta, scala.collection.immutable.Map$.MODULE$.empty() });
    Dataset$.MODULE$.ofRows(session, (LogicalPlan) SparkInternals.with((scala.Product) append, "write", new scala.Some(write)));
  }

  private static LogicalPlan scan(Map options) {
    LanceTable table = LanceTable.reopened(new CaseInsensitiveStringMap(options));
    return DataSourceV2Relation$.MODULE$.create(table, scala.Option.empty(), scala.Option.empty()).withMetadataColumns();
  }

  /** The inputs of a refresh: at their versions, and as their changes. */
  private class Scans {
    final ViewQuery view;
    /** The id of the row of the first input that a row comes from; null if the view has no such column. */
    final Attribute row;
    final boolean addsOnly;
    private final JsonNode inputs;
    /** The column of that id in each plan of the first input. Its id is the same in all of them. */
    private final Alias rowOf;

    Scans(ViewQuery view, JsonNode plan) throws Exception {
      this.view = view;
      this.inputs = Json.at(plan, "inputs");
      this.addsOnly = Json.at(plan, "adds_only").asBoolean();
      LogicalPlan any = at(0, "version");
      this.rowOf = Json.at(plan, "has_row").asBoolean() ? ViewQuery.named(ViewQuery.column(any, Names.ROW_ID), ViewQuery.ROW) : null;
      this.row = rowOf == null ? null : (Attribute) rowOf.toAttribute();
    }

    private DataSourceV2Relation input(int i) { return (DataSourceV2Relation) view.inputs.get(i); }

    /** The options that name the table or branch of an input. A tag may be of a version of a branch. */
    private Map options(int i) throws Exception {
      Map options = view.options(i);
      for (String name : Names.VERSION_OPTIONS.split(" ")) options.remove(name);
      String branch = Json.at(Json.at(inputs, i), "branch").asText();
      if (!branch.isEmpty()) options.put("branch", branch);
      return options;
    }

    /** An input at the version under a key of the plan. */
    private LogicalPlan at(int i, String key) throws Exception {
      Map options = options(i);
      options.put("version", Json.at(Json.at(inputs, i), key).asText());
      return scan(options);
    }

    /** The changed rows of an input, as they were or as they are; null for both. */
    private LogicalPlan feed(int i, Boolean isNew) throws Exception {
      JsonNode input = Json.at(inputs, i);
      Map options = options(i);
      options.put(Names.CHANGE_FEED, "true");
      options.put(Names.STARTING_VERSION, String.valueOf(Json.at(input, "old").asLong() + 1));
      options.put(Names.ENDING_VERSION, Json.at(input, "version").asText());
      options.put(Names.NET_CHANGES, Json.at(input, "net").asText());
      options.put(Names.WITH_ROW_ID, "true");
      LogicalPlan changes = scan(options);
      if (isNew == null) return changes;
      String kinds = isNew.booleanValue() ? "'insert', 'update_postimage'" : "'delete', 'update_preimage'";
      return ((Dataset) rows(changes).where("_change_type IN (" + kinds + ")")).queryExecution().analyzed();
    }

    /** What stands for an input in the query: these rows. */
    private LogicalPlan standing(int i, LogicalPlan rows) {
      Alias own = i > 0 || rowOf == null ? null : (Alias) rowOf.withNewChildren(ViewQuery.seq(Collections.singletonList(ViewQuery.column(rows, Names.ROW_ID))));
      return ViewQuery.standingFor(input(i), rows, own);
    }

    /** All inputs at the versions under a key. */
    Map at(String key) throws Exception {
      Map scans = new IdentityHashMap();
      for (int i = 0; i < inputs.size(); i++) scans.put(input(i), standing(i, at(i, key)));
      return scans;
    }

    /** All inputs at the versions under a key, but for one, which has these rows. */
    Map with(int i, String key, LogicalPlan rows) throws Exception {
      Map scans = at(key);
      scans.put(input(i), standing(i, rows));
      return scans;
    }

    private boolean isChanged(int i) { return Json.at(Json.at(inputs, i), "changed").asBoolean(); }

    /** The rows of the core, as they were and as they are, in which a changed row of an input has a part: some columns of these. */
    private List parts(int i, boolean isByRow) throws Exception {
      List parts = new ArrayList();
      for (int side = 0; side < 2; side++) {
        boolean isNew = side == 1;
        LogicalPlan core = view.coreOver(with(i, isNew ? "version" : "old", feed(i, Boolean.valueOf(isNew))), isByRow ? row : null, i);
        List columns = new ArrayList();
        if (isByRow) columns.add(ViewQuery.named(row, TOUCHED + 0));
        for (int k = 0; !isByRow && k < view.keyValues.size(); k++) columns.add(ViewQuery.named((Expression) view.keyValues.get(k), TOUCHED + k));
        parts.add(rows(new Project(ViewQuery.seq(columns), core)));
      }
      return parts;
    }

    /** The different rows of all parts. */
    private Dataset union(List parts) {
      Dataset all = (Dataset) parts.get(0);
      for (int i = 1; i < parts.size(); i++) all = (Dataset) all.union((Dataset) parts.get(i));
      return (Dataset) all.distinct();
    }

    private boolean isOtherChanged() {
      for (int i = 1; i < inputs.size(); i++) if (isChanged(i)) return true;
      return false;
    }

    /** The ids of the rows of the first input whose rows in the view may have changed. New rows of the first input have none in it. */
    Dataset rowIds() throws Exception {
      List parts = new ArrayList();
      Boolean isNew = isOtherChanged() ? null : Boolean.FALSE;
      if (isChanged(0)) parts.add(rows(feed(0, isNew)).selectExpr(new String[] { Names.ROW_ID + " AS " + TOUCHED + 0 }));
      for (int i = 1; i < inputs.size(); i++) if (isChanged(i)) parts.addAll(parts(i, true));
      return union(parts);
    }

    /** The keys of the rows of the view that may have changed. */
    Dataset keys() throws Exception {
      List parts = new ArrayList();
      for (int i = 0; i < inputs.size(); i++) if (isChanged(i)) parts.addAll(parts(i, false));
      return union(parts);
    }

    /** The rows of the view that may have changed, as they are now. */
    Dataset anew(TouchedUnits touched) throws Exception {
      if (row == null) return rows(view.overCore(touched.of(view.coreOver(at("version"), null), view.keyValues)));
      if (!isOtherChanged()) return rows(view.over(with(0, "version", feed(0, Boolean.TRUE)), row));
      LogicalPlan all = at(0, "version");
      LogicalPlan some = touched.of(all, Collections.singletonList(ViewQuery.column(all, Names.ROW_ID)));
      return rows(view.over(with(0, "version", some), row));
    }
  }
}
