package lancespark.statements;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.core.SparkInternals;
import lancespark.core.Walk;
import lancespark.protocol.Instructions;
import lancespark.protocol.Json;
import lancespark.protocol.Names;
import lancespark.table.LanceTable;
import org.apache.spark.sql.catalyst.analysis.SQLScalarFunction;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.PythonFuncExpression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.expressions.VariableReference;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Sample;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import org.apache.spark.sql.catalyst.plans.logical.WithCTE;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The query of a materialized view, as Spark has analysed it: what it reads, and whether a part of its result can be computed by itself.
 *
 * The result consists of units, each of which a refresh computes anew or leaves as it is: the rows that one row of the first table gives, or those with the
 * same keys, which GROUP BY, DISTINCT or PARTITION BY name. Below them is the core: filters, projections and joins of tables. A row of the core comes from one row of
 * each table, so the units that changed are those of the rows that the core has when one of its tables is replaced by its changes.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
class ViewQuery {
  /** The column of a view with the id of the row of the first table that a row comes from. */
  static final String ROW = "_source_row_id";
  private static final List CLOCKS = Arrays.asList(new String[] { "CurrentDate", "CurrentTimestamp", "Now", "LocalTimestamp", "CurrentTime", "CurrentUser",
      "CurrentCatalog", "CurrentDatabase", "SessionUser", "CurrentTimeZone" });
  final LogicalPlan plan;
  /** The scans of lance tables: those of the core come in the order of the plan. */
  final List inputs = new ArrayList();
  /** Why no part of the result can be computed by itself; empty if one can. */
  String why = "";
  /** The names of the columns of the result that are the keys of units, and their values in the core; none if units are of rows. */
  final List keys = new ArrayList(), keyValues = new ArrayList();
  /** The part below the units, and the node of the units above it; null if units are of rows. */
  LogicalPlan core;
  private LogicalPlan units;
  /** What is changed in the core to find units by the changes of a table of LEFT JOIN: the joins, and filters above them. */
  private final Map outer = new IdentityHashMap();
  private final ArrayNode described = Json.array();
  /** The ids of the columns of inputs that the result is computed of. */
  private final Set read = new HashSet();
  /** The query with the views, functions and literals that its names stand for now, and with ids that each analysis gives anew. */
  private final StringBuilder meaning = new StringBuilder();

  ViewQuery(LogicalPlan analysed) throws Exception {
    this.plan = inlined(analysed, new HashMap());
    check(plan);
    findUnits();
    if (inputs.isEmpty()) throw new UnsupportedOperationException("the query of a materialized view reads no lance table; write CREATE TABLE .. AS SELECT");
  }

  /** What Python knows of the query. */
  ObjectNode json() {
    ObjectNode json = Json.object().put("why", why).put("by_row", units == null).put("columns", plan.schema().json());
    json.set("keys", Json.names((String[]) keys.toArray(new String[keys.size()])));
    json.set("inputs", described);
    return json.put("meaning", meaning.toString().replaceAll("#\\d+L?|(?<=_gen_alias_)\\d+", ""));
  }

  /**
   * Adds what a plan computes, and the columns that it reads. `needed` are the ids of its columns that are used above it; all are, if it is null. Others are left out:
   * SELECT * in a part of the query names each new column of a table.
   */
  private void addMeaning(LogicalPlan node, Set needed) {
    if (node instanceof DataSourceV2Relation) {
      for (Attribute own : CollectionConverters.asJava(node.output())) if (needed == null || needed.contains(own.exprId())) read.add(own.exprId());
      return;
    }
    meaning.append('(').append(node.nodeName());
    if (node instanceof Join) meaning.append(' ').append(((Join) node).joinType().sql());
    if (node instanceof View) meaning.append(' ').append(((View) node).desc().viewText());
    boolean isPassing = node instanceof Filter || node instanceof Join || node instanceof SubqueryAlias || node instanceof View;
    boolean isChoosing = node instanceof Project || node instanceof Aggregate;
    Set below = isChoosing || isPassing && needed != null ? new HashSet() : null;
    if (isPassing && below != null) below.addAll(needed);
    for (Expression e : CollectionConverters.asJava(node.expressions())) {
      boolean isLeftOut = node instanceof Project && needed != null && !needed.contains(((NamedExpression) e).exprId());
      if (isLeftOut) continue;
      meaning.append(' ').append(e.sql());
      addMeaning(e);
      if (below != null) for (Attribute column : CollectionConverters.asJava(e.references().toSeq())) below.add(column.exprId());
    }
    for (LogicalPlan child : CollectionConverters.asJava(node.children())) addMeaning(child, below);
    meaning.append(')');
  }

  /** Adds what the text of an expression does not tell: queries, and functions of SQL and Python. */
  private void addMeaning(Expression e) {
    if (e instanceof SubqueryExpression) addMeaning((LogicalPlan) ((SubqueryExpression) e).plan(), null);
    if (e instanceof SQLScalarFunction) meaning.append(' ').append(((SQLScalarFunction) e).child().sql());
    if (e instanceof PythonFuncExpression) meaning.append(CollectionConverters.asJava(((PythonFuncExpression) e).func().command()));
    for (Expression child : CollectionConverters.asJava(e.children())) addMeaning(child);
  }

  /** The options of a read of an input at its place. */
  Map options(int input) throws Exception {
    DataSourceV2Relation relation = (DataSourceV2Relation) inputs.get(input);
    return new HashMap(Instructions.without(LanceTable.scanned(relation.table()).source(relation.options()).options.asCaseSensitiveMap()));
  }

  // What is refused.

  private void check(LogicalPlan node) throws Exception {
    if (node instanceof View && ((View) node).isTempView()) refuse("the temporary view " + ((View) node).desc().identifier().table(), "a refresh may run in another session");
    if (node instanceof Sample) refuse("TABLESAMPLE", "each refresh would choose other rows");
    for (Expression e : CollectionConverters.asJava(node.expressions())) check(e);
    for (LogicalPlan child : CollectionConverters.asJava(node.children())) check(child);
    if (!node.children().isEmpty() || node instanceof OneRowRelation) return;
    LanceTable table = node instanceof DataSourceV2Relation ? LanceTable.scanned(((DataSourceV2Relation) node).table()) : null;
    if (table == null) refuse(shown(node), "each input must be a lance table, of which the changes are known");
    DataSourceV2Relation relation = (DataSourceV2Relation) node;
    Map options = table.source(relation.options()).options.asCaseSensitiveMap();
    if (options.get(Names.INSTRUCTIONS) != null && Json.parse((String) options.get(Names.INSTRUCTIONS)).has(Instructions.CALL)) {
      refuse("the table function of " + table.name(), "each input must be a table");
    }
    inputs.add(node);
  }

  private void check(Expression e) throws Exception {
    if (CLOCKS.contains(e.getClass().getSimpleName())) refuse(e.sql(), "its value depends on when or by whom the view is refreshed");
    if (e instanceof VariableReference) refuse("the variable " + e.sql(), "a refresh may run in another session");
    if (e instanceof SubqueryExpression) check((LogicalPlan) ((SubqueryExpression) e).plan());
    for (Expression child : CollectionConverters.asJava(e.children())) check(child);
    if (!e.deterministic() && !(e instanceof SubqueryExpression)) refuse(e.sql(), "it is not deterministic");
  }

  private static void refuse(String what, String why) {
    throw new UnsupportedOperationException("a materialized view cannot be made of " + what + ": " + why);
  }

  private static String shown(LogicalPlan leaf) { return leaf.simpleString(5); }

  // Units.

  private void findUnits() throws Exception {
    LogicalPlan node = plan;
    while (node instanceof Project || node instanceof Filter || node instanceof SubqueryAlias || node instanceof View) node = child(node);
    boolean isUnits = node instanceof Aggregate || node instanceof Window || node instanceof Distinct;
    units = isUnits ? node : null;
    core = isUnits ? child(node) : plan;
    inputs.clear();
    addInputs(plan, inputs);
    if (!plan.subqueriesAll().isEmpty()) why = "a subquery is not computed by parts";
    checkCore(core, new ArrayList());
    if (why.isEmpty() && isUnits) findKeys();
    if (why.isEmpty() && !isUnits && hasRowColumn()) why = "the query has a column " + ROW + ", in which the view would keep the ids of rows; select the other columns by name";
    describe();
  }

  private boolean hasRowColumn() {
    for (Attribute column : CollectionConverters.asJava(plan.output())) if (column.name().equalsIgnoreCase(ROW)) return true;
    return false;
  }

  private void checkCore(LogicalPlan node, List above) throws Exception {
    if (!why.isEmpty()) return;
    boolean isPlain = node instanceof Project || node instanceof Filter || node instanceof SubqueryAlias || node instanceof View || node instanceof DataSourceV2Relation;
    if (!isPlain && !(node instanceof Join)) {
      why = node.nodeName() + " is not computed by parts";
      return;
    }
    if (node instanceof DataSourceV2Relation) return;
    if (node instanceof Join) checkJoin((Join) node, above);
    List below = new ArrayList(above);
    below.add(node);
    for (LogicalPlan child : CollectionConverters.asJava(node.children())) checkCore(child, below);
  }

  private void checkJoin(Join join, List above) throws Exception {
    String type = join.joinType().sql();
    if (type.equals("INNER") || type.equals("CROSS")) return;
    if (!type.equals("LEFT OUTER")) {
      why = type + " JOIN is not computed by parts; an inner or left join is";
      return;
    }
    List optional = new ArrayList();
    addInputs(join.right(), optional);
    for (Object leaf : optional) {
      List changed = (List) outer.get(leaf);
      if (changed == null) outer.put(leaf, changed = new ArrayList());
      changed.add(join);
      for (Object node : above) if (node instanceof Filter) changed.add(node);
    }
    for (Object node : above) {
      boolean isJoin = node instanceof Join && !((Join) node).condition().isEmpty();
      if (isJoin && !Collections.disjoint(origins((Expression) ((Join) node).condition().get(), core), optional)) {
        why = "a join by a column of the right side of a LEFT JOIN is not computed by parts";
      }
    }
  }

  private void findKeys() throws Exception {
    List values = new ArrayList();
    if (units instanceof Aggregate) values.addAll(CollectionConverters.asJava(((Aggregate) units).groupingExpressions()));
    else if (units instanceof Window) values.addAll(CollectionConverters.asJava(((Window) units).partitionSpec()));
    else values.addAll(CollectionConverters.asJava(core.output()));
    if (values.isEmpty()) {
      why = units instanceof Window ? "a window without PARTITION BY is over all rows" : "an aggregate without GROUP BY is over all rows";
      return;
    }
    Set optional = Collections.newSetFromMap(new IdentityHashMap());
    optional.addAll(outer.keySet());
    for (Object value : values) {
      Expression key = (Expression) value;
      String name = nameOf(key);
      if (name == null) why = "the view has no column with the key " + key.sql();
      else if (hasMap(key.dataType())) why = "the key " + key.sql() + " is a map";
      else if (!Collections.disjoint(origins(key, core), optional)) why = "the key " + key.sql() + " is of the right side of a LEFT JOIN";
      keys.add(name);
      keyValues.add(key);
    }
  }

  /** The name of the column of the result that has the values of a key; null if there is none. */
  private String nameOf(Expression key) {
    Attribute found = key instanceof Attribute ? (Attribute) key : null;
    if (units instanceof Aggregate) {
      found = null;
      for (Object e : CollectionConverters.asJava(((Aggregate) units).aggregateExpressions())) {
        Expression value = e instanceof Alias ? ((Alias) e).child() : (Expression) e;
        if (value.semanticEquals(key)) found = ((NamedExpression) e).toAttribute();
      }
    }
    List projects = new ArrayList();
    for (LogicalPlan node = plan; node != units; node = child(node)) if (node instanceof Project) projects.add(0, node);
    for (Object project : projects) {
      Attribute next = null;
      for (Object e : CollectionConverters.asJava(((Project) project).projectList())) {
        Object value = e instanceof Alias ? (Object) ((Alias) e).child() : e;
        if (found != null && value instanceof Attribute && ((Attribute) value).exprId().equals(found.exprId())) next = ((NamedExpression) e).toAttribute();
      }
      found = next;
    }
    for (Attribute column : CollectionConverters.asJava(plan.output())) if (found != null && column.exprId().equals(found.exprId())) return column.name();
    return null;
  }

  static boolean hasMap(DataType type) {
    if (type instanceof MapType) return true;
    if (type instanceof org.apache.spark.sql.types.ArrayType) return hasMap(((org.apache.spark.sql.types.ArrayType) type).elementType());
    if (!(type instanceof org.apache.spark.sql.types.StructType)) return false;
    for (StructField field : ((org.apache.spark.sql.types.StructType) type).fields()) if (hasMap(field.dataType())) return true;
    return false;
  }

  /** The scans that a value is computed of. */
  private List origins(Expression value, LogicalPlan below) {
    List found = new ArrayList();
    for (Attribute column : CollectionConverters.asJava(value.references().toSeq())) addOrigins(column, below, found);
    return found;
  }

  private void addOrigins(Attribute column, LogicalPlan node, List found) {
    if (node instanceof DataSourceV2Relation) {
      for (Attribute own : CollectionConverters.asJava(node.output())) if (own.exprId().equals(column.exprId())) found.add(node);
      return;
    }
    if (node instanceof Project) {
      for (Object e : CollectionConverters.asJava(((Project) node).projectList())) {
        boolean isIt = e instanceof Alias && ((Alias) e).exprId().equals(column.exprId());
        if (isIt) found.addAll(origins(((Alias) e).child(), child(node)));
      }
    }
    for (LogicalPlan child : CollectionConverters.asJava(node.children())) addOrigins(column, child, found);
  }

  private void describe() throws Exception {
    addMeaning(plan, null);
    for (int i = 0; i < inputs.size(); i++) {
      DataSourceV2Relation relation = (DataSourceV2Relation) inputs.get(i);
      List own = Arrays.asList(LanceTable.scanned(relation.table()).schema().fieldNames());
      ArrayNode columns = Json.array();
      for (Attribute column : CollectionConverters.asJava(relation.output())) {
        if (!read.contains(column.exprId())) continue;
        if (own.contains(column.name())) columns.add(column.name());
        else if (why.isEmpty()) why = "the query reads " + column.name() + ", which changes without the row";
      }
      ObjectNode input = Json.object().put("name", relation.table().name());
      input.set("options", Json.texts(options(i)));
      input.set("columns", columns);
      described.add(input);
    }
  }

  /** Adds the scans of a plan, and of the subqueries in its expressions after those. */
  private static void addInputs(LogicalPlan node, List found) {
    for (Object leaf : CollectionConverters.asJava(node.collectLeaves())) if (leaf instanceof DataSourceV2Relation && !isIn(found, leaf)) found.add(leaf);
    for (LogicalPlan query : CollectionConverters.asJava(node.subqueriesAll())) addInputs(query, found);
  }

  private static boolean isIn(List all, Object one) {
    for (Object other : all) if (other == one) return true;
    return false;
  }

  // Plans.

  /** The whole query over other plans of its inputs. The rows have the column `row`, unless that is null. */
  LogicalPlan over(Map scans, Attribute row) throws Exception { return new Over(scans, row, Collections.EMPTY_LIST).in(plan); }

  /** The core over other plans of its inputs. Rows are those that the input `changed` has a part in. */
  LogicalPlan coreOver(Map scans, Attribute row, int changed) throws Exception {
    List others = (List) outer.get(inputs.get(changed));
    return new Over(scans, row, others == null ? Collections.EMPTY_LIST : others).in(core);
  }

  /** The core over other plans of its inputs. */
  LogicalPlan coreOver(Map scans, Attribute row) throws Exception { return new Over(scans, row, Collections.EMPTY_LIST).in(core); }

  /** The whole query over a core of which some rows were left out. */
  LogicalPlan overCore(LogicalPlan rows) throws Exception { return new Over(Collections.singletonMap(core, rows), null, Collections.EMPTY_LIST).in(plan); }

  static Alias named(Expression value, String name) {
    return new Alias(value, name, NamedExpression$.MODULE$.newExprId(), seq(new ArrayList()), scala.Option.empty(), seq(new ArrayList()));
  }

  /**
   * A plan with the columns of a scan, under its ids; `row` is one more of them, unless it is null. An earlier version may lack a column that was added since: the query
   * does not read it, since the changes could not be told otherwise.
   */
  static LogicalPlan standingFor(DataSourceV2Relation scan, LogicalPlan rows, Alias row) {
    List columns = new ArrayList();
    for (Attribute own : CollectionConverters.asJava(scan.output())) {
      Attribute there = columnIfThere(rows, own.name());
      Expression value = there == null ? (Expression) new Literal(null, own.dataType()) : there;
      columns.add(new Alias(value, own.name(), own.exprId(), (scala.collection.immutable.Seq) own.qualifier(), scala.Option.empty(), seq(new ArrayList())));
    }
    if (row != null) columns.add(row);
    return new Project(seq(columns), rows);
  }

  static Attribute column(LogicalPlan rows, String name) {
    Attribute found = columnIfThere(rows, name);
    if (found == null) throw new IllegalStateException("no column " + name);
    return found;
  }

  private static Attribute columnIfThere(LogicalPlan rows, String name) {
    for (Attribute column : CollectionConverters.asJava(rows.output())) if (column.name().equals(name)) return column;
    return null;
  }

  static scala.collection.immutable.Seq seq(List elements) { return CollectionConverters.asScala(elements).toSeq(); }

  private static LogicalPlan child(LogicalPlan node) { return (LogicalPlan) node.children().apply(0); }

  /** The plan in which each common table expression stands where it is named. One that is named twice stays, with what names it. */
  private static LogicalPlan inlined(LogicalPlan node, Map definitions) throws Exception {
    if (node instanceof WithCTE) {
      for (Object definition : CollectionConverters.asJava(((WithCTE) node).cteDefs())) {
        definitions.put(Long.valueOf(((CTERelationDef) definition).id()), ((CTERelationDef) definition).child());
      }
      return inlined(((WithCTE) node).plan(), definitions);
    }
    if (node instanceof CTERelationRef) {
      LogicalPlan definition = (LogicalPlan) definitions.remove(Long.valueOf(((CTERelationRef) node).cteId()));
      if (definition == null) refuse("a query that names a WITH clause twice", "write the query of the clause in both places");
      LogicalPlan rows = inlined(definition, definitions);
      List columns = new ArrayList();
      for (int i = 0; i < node.output().size(); i++) {
        Attribute own = (Attribute) node.output().apply(i);
        columns.add(new Alias((Expression) rows.output().apply(i), own.name(), own.exprId(), (scala.collection.immutable.Seq) own.qualifier(), scala.Option.empty(), seq(new ArrayList())));
      }
      return new Project(seq(columns), rows);
    }
    List children = new ArrayList();
    for (LogicalPlan child : CollectionConverters.asJava(node.children())) children.add(inlined(child, definitions));
    return Walk.over(node, children);
  }

  /** Replaces scans, also those of subqueries, and lets the rows keep the column `row`. */
  private static class Over extends scala.runtime.AbstractPartialFunction {
    private final Map scans = new IdentityHashMap();
    private final Attribute row;
    private final List outer;

    Over(Map scans, Attribute row, List outer) {
      this.scans.putAll(scans);
      this.row = row;
      this.outer = outer;
    }

    LogicalPlan in(LogicalPlan node) throws Exception {
      if (scans.containsKey(node)) return (LogicalPlan) scans.get(node);
      boolean isOuter = isIn(outer, node);
      if (isOuter && node instanceof Filter) return in(child(node));
      List children = new ArrayList();
      for (LogicalPlan child : CollectionConverters.asJava(node.children())) children.add(in(child));
      LogicalPlan over = Walk.over(node, children);
      if (!node.subqueries().isEmpty()) over = (LogicalPlan) over.mapExpressions(new InExpressions(this));
      if (isOuter) over = (LogicalPlan) SparkInternals.with((scala.Product) over, "joinType", Inner$.MODULE$);
      if (row == null || !(over instanceof Project) || !child(over).outputSet().contains(row)) return over;
      List columns = new ArrayList(CollectionConverters.asJava(((Project) over).projectList()));
      columns.add(row);
      return new Project(seq(columns), child(over));
    }

    public boolean isDefinedAt(Object e) { return e instanceof SubqueryExpression; }

    public Object applyOrElse(Object e, scala.Function1 others) {
      if (!(e instanceof SubqueryExpression)) return others.apply(e);
      try {
        return ((SubqueryExpression) e).withNewPlan(in((LogicalPlan) ((SubqueryExpression) e).plan()));
      } catch (Exception failed) {
        throw new IllegalStateException(failed);
      }
    }
  }

  private static class InExpressions extends scala.runtime.AbstractFunction1 {
    private final Over over;

    InExpressions(Over over) { this.over = over; }

    public Object apply(Object e) { return ((Expression) e).transform(over); }
  }
}
