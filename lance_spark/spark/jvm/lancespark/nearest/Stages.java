package lancespark.nearest;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.*;
import lancespark.core.Session;
import lancespark.protocol.Json;
import lancespark.protocol.Message;
import lancespark.protocol.Protocol;
import lancespark.source.Source;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Ascending$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.MonotonicallyIncreasingID;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.SortDirection;
import org.apache.spark.sql.catalyst.expressions.SortOrder$;
import org.apache.spark.sql.catalyst.expressions.UserDefinedGenerator;
import org.apache.spark.sql.catalyst.expressions.XxHash64;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapInArrow;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.types.*;
import scala.jdk.javaapi.CollectionConverters;

/** The tasks of one join. */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
class Stages {
  /** Of functions over Arrow batches (pyspark.util.PythonEvalType). */
  private static final int IN_ARROW = 207;
  private final NearestCall call;
  private final Expression question;
  private final LogicalPlan questions;
  /** The columns of the result. */
  private final List own = new ArrayList(), ofTable = new ArrayList();
  private final JoinedTable table;
  private JsonNode about;
  /** The functions of the steps, one after the other. */
  private byte[] functions;

  /** For a generator of whose columns these are `needed`. */
  Stages(Generate node, Set needed) {
    UserDefinedGenerator generator = (UserDefinedGenerator) node.generator();
    call = (NearestCall) generator.function();
    question = (Expression) generator.children().apply(0);
    questions = node.child();
    Iterator output = CollectionConverters.asJava(node.output()).iterator();
    List generated = CollectionConverters.asJava(node.generatorOutput()), columns = new ArrayList();
    while (output.hasNext()) {
      Attribute column = (Attribute) output.next();
      if (needed != null && !needed.contains(column.exprId())) continue;
      int at = position(generated, column.exprId());
      (at < 0 ? own : ofTable).add(column);
      if (at >= 0) columns.add(call.rows.output().apply(at));
    }
    columns.add(call.vector());
    try {
      table = call.table(columns);
    } catch (Declined e) {
      throw new IllegalStateException("the table of a join by nearness is another one now (" + e.getMessage() + "); make the query again");
    }
  }

  private static int position(List attributes, ExprId id) {
    for (int i = 0; i < attributes.size(); i++) if (((Attribute) attributes.get(i)).exprId().equals(id)) return i;
    return -1;
  }

  LogicalPlan planned() {
    // Without columns, the number of rows would be lost.
    List asked = new ArrayList(own), named = new ArrayList();
    if (asked.isEmpty()) asked.add(new Literal(Boolean.TRUE, DataTypes.BooleanType));
    StructField[] fields = new StructField[asked.size()];
    for (int i = 0; i < fields.length; i++) {
      named.add(named((Expression) asked.get(i), "c" + i));
      fields[i] = new StructField("c" + i, ((Expression) asked.get(i)).dataType(), true, Metadata.empty());
    }
    ask(new StructType(fields));
    Session.LOG.info("nearest join of {}: {}", table.name(), text("told"));
    DataType floats = DataTypes.createArrayType(text("vector").equals("double") ? DataTypes.DoubleType : DataTypes.FloatType);
    named.add(named(new Cast(question, floats, scala.Option.empty()), "vector"));
    LogicalPlan numbered = new Project(seq(named), questions);
    Expression hash = new XxHash64(seq(Collections.singletonList(numbered.output().last())));
    if (about.get("steps").size() == 1) return result(step(0, by(numbered, hash, scala.Option.empty())));
    numbered = sorted(numbered, Arrays.asList(new Object[] { hash }));
    List columns = new ArrayList(CollectionConverters.asJava(numbered.output()));
    columns.add(named(new MonotonicallyIncreasingID(), "number"));
    LogicalPlan probes = step(0, new Project(seq(columns), numbered));
    LogicalPlan found = step(1, by(probes, column(probes, "key"), new scala.Some(Integer.valueOf(((JsonNode) (Object) about.get("groups")).intValue()))));
    LogicalPlan byQuestion = by(found, column(found, "number"), scala.Option.empty());
    List order = Arrays.asList(new Object[] { column(byQuestion, "number"), new IsNull(column(byQuestion, "question")) });
    return result(step(2, sorted(byQuestion, order)));
  }

  /** The columns that Spark expects, with their ids. */
  private LogicalPlan result(LogicalPlan rows) {
    List out = new ArrayList();
    for (int i = 0; i < own.size(); i++) {
      Attribute column = (Attribute) own.get(i);
      Expression value = new GetStructField(column(rows, "question"), i, scala.Option.empty());
      out.add(NearestJoins.alias(value, column.name(), column));
    }
    scala.PartialFunction read = new Read(table.columns, rows);
    Expression isMissing = new IsNull(column(rows, "_distance"));
    for (int i = 0; i < ofTable.size(); i++) {
      Attribute column = (Attribute) ofTable.get(i);
      Expression given = (Expression) table.expressions.get(i);
      if (given instanceof Alias) given = ((Alias) given).child();
      Expression value = (Expression) given.transform(read);
      boolean isComputed = call.isLeft && !(value instanceof AttributeReference);
      if (isComputed) value = new If(isMissing, new Literal(null, value.dataType()), value);
      out.add(NearestJoins.alias(value, column.name(), column));
    }
    return new Project(seq(out), rows);
  }

  /** Replaces columns of the scan by those that the last step has read. */
  private static class Read extends scala.runtime.AbstractPartialFunction {
    private final List columns;
    private final LogicalPlan rows;

    Read(List columns, LogicalPlan rows) {
      this.columns = columns;
      this.rows = rows;
    }

    public boolean isDefinedAt(Object e) { return e instanceof AttributeReference && position(columns, ((Attribute) e).exprId()) >= 0; }

    public Object applyOrElse(Object e, scala.Function1 others) {
      return isDefinedAt(e) ? column(rows, "t" + position(columns, ((Attribute) e).exprId())) : others.apply(e);
    }
  }

  /** Gets the steps from Python. */
  private void ask(StructType asked) {
    Message steps = Message.header(table.planned(call, asked), Protocol.STEPS);
    about = Json.parse(steps.text());
    functions = steps.bytes();
  }

  private JsonNode aboutStep(int number) { return (JsonNode) (Object) ((JsonNode) (Object) about.get("steps")).get(number); }

  private byte[] function(int number) {
    int at = 0;
    for (int i = 0; i < number; i++) at += aboutStep(i).get("bytes").intValue();
    return Arrays.copyOfRange(functions, at, at + aboutStep(number).get("bytes").intValue());
  }

  private String text(String key) { return ((JsonNode) (Object) about.get(key)).asText(); }

  /** The rows of a step of Python. */
  private LogicalPlan step(int number, LogicalPlan rows) {
    String name = aboutStep(number).get("name").asText() + " of " + table.name();
    StructType schema = (StructType) DataType.fromJson(aboutStep(number).get("schema").asText());
    List output = new ArrayList();
    for (int i = 0; i < schema.length(); i++) {
      StructField field = schema.fields()[i];
      output.add(new AttributeReference(field.name(), field.dataType(), true, field.metadata(), NamedExpression$.MODULE$.newExprId(), seq(new ArrayList())));
    }
    Object function = Source.unopened().source().createPythonFunction(function(number));
    Expression call = new PythonUDF(name, (org.apache.spark.api.python.PythonFunction) function, schema, (scala.collection.immutable.Seq) rows.output(),
        IN_ARROW, true, NamedExpression$.MODULE$.newExprId());
    return new MapInArrow(call, seq(output), rows, false, scala.Option.empty());
  }

  private static LogicalPlan by(LogicalPlan rows, Expression key, scala.Option partitions) {
    return new RepartitionByExpression(seq(Collections.singletonList(key)), rows, partitions, scala.Option.empty());
  }

  private static LogicalPlan sorted(LogicalPlan rows, List keys) {
    List order = new ArrayList();
    for (int i = 0; i < keys.size(); i++) order.add(SortOrder$.MODULE$.apply((Expression) keys.get(i), (SortDirection) Ascending$.MODULE$, seq(new ArrayList())));
    return new Sort(seq(order), false, rows, scala.Option.empty());
  }

  private static Attribute column(LogicalPlan rows, String name) {
    for (Attribute column : CollectionConverters.asJava(rows.output())) {
      if (column.name().equals(name)) return column;
    }
    throw new IllegalStateException(name);
  }

  static Alias named(Expression value, String name) {
    return new Alias(value, name, NamedExpression$.MODULE$.newExprId(), seq(new ArrayList()), scala.Option.empty(), seq(new ArrayList()));
  }

  private static scala.collection.immutable.Seq seq(List elements) { return NearestJoins.seq(elements); }
}
