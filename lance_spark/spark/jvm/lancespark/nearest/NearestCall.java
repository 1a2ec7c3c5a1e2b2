package lancespark.nearest;

import java.io.Serializable;
import java.util.*;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UserDefinedGenerator;
import org.apache.spark.sql.catalyst.expressions.VectorCosineSimilarity;
import org.apache.spark.sql.catalyst.expressions.VectorInnerProduct;
import org.apache.spark.sql.catalyst.expressions.VectorL2Distance;
import org.apache.spark.sql.catalyst.plans.NearestByDistance$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.NearestByJoin;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.trees.TreePattern$;
import org.apache.spark.sql.types.*;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A join by nearness with a lance table, as the function of a generator: it gives the nearest rows for a vector. NearestStages replaces it; Spark
 * cannot evaluate it.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast", "serial"})
class NearestCall implements scala.Function1, Serializable {
  /** The columns of the table, and the vectors that are compared, which are the last one. */
  final LogicalPlan rows;
  final Expression question;
  final String metric;
  final int k;
  final boolean isExact, isLeft;
  private final StructType schema;

  private NearestCall(LogicalPlan rows, Expression question, String metric, NearestByJoin join) {
    this.rows = rows;
    this.question = question;
    this.metric = metric;
    this.k = join.numResults();
    this.isExact = !join.approx();
    this.isLeft = join.joinType().sql().equals("LEFT OUTER");
    this.schema = join.right().schema();
  }

  /** The call for a join with the rows of `table`. */
  static NearestCall of(NearestByJoin join, LogicalPlan table) {
    if (!JoinedTable.isOfLance(table)) throw new Declined("the right side is no lance table", true);
    if (join.isStreaming()) throw new Declined("it is a stream; join its batches in foreachBatch");
    Expression ranking = join.rankingExpression();
    String metric = metric(ranking, join.direction() == NearestByDistance$.MODULE$);
    Expression first = (Expression) ranking.children().apply(0), second = (Expression) ranking.children().apply(1);
    boolean isSecond = isOf(first, join.left()) && isOf(second, join.right());
    if (!isSecond && !(isOf(second, join.left()) && isOf(first, join.right()))) {
      throw new Declined("one argument of " + ranking.sql() + " must be of the left side, the other one of the table");
    }
    Expression question = isSecond ? first : second, vector = isSecond ? second : first;
    if (!ranking.deterministic()) throw new Declined(ranking.sql() + " is not deterministic");
    boolean hasQuery = ranking.containsPattern(TreePattern$.MODULE$.PLAN_EXPRESSION());
    if (hasQuery || ranking.containsPattern(TreePattern$.MODULE$.OUTER_REFERENCE())) throw new Declined("a query is in " + ranking.sql());
    for (Attribute column : CollectionConverters.asJava(join.left().output())) {
      if (!isCarried(column.dataType())) {
        throw new Declined("the column " + column.name() + " of the left side has the type " + column.dataType().simpleString());
      }
    }
    List all = new ArrayList(CollectionConverters.asJava(table.output()));
    all.add(Stages.named(vector, "vector"));
    NearestCall call = new NearestCall(new Project(NearestJoins.seq(all), table), question, metric, join);
    call.table(CollectionConverters.asJava(call.rows.output()));
    return call;
  }

  private static String metric(Expression ranking, boolean isDistance) {
    if (isDistance && ranking instanceof VectorL2Distance) return "l2";
    if (!isDistance && ranking instanceof VectorCosineSimilarity) return "cosine";
    if (!isDistance && ranking instanceof VectorInnerProduct) return "dot";
    throw new Declined("BY " + (isDistance ? "DISTANCE " : "SIMILARITY ") + ranking.sql() + " is none of DISTANCE vector_l2_distance, SIMILARITY "
        + "vector_cosine_similarity and SIMILARITY vector_inner_product");
  }

  private static boolean isOf(Expression e, LogicalPlan side) { return e.references().subsetOf(side.outputSet()); }

  /** Whether Python can carry values of a type. */
  private static boolean isCarried(DataType type) {
    if (type instanceof ArrayType) return isCarried(((ArrayType) type).elementType());
    if (type instanceof MapType) return isCarried(((MapType) type).keyType()) && isCarried(((MapType) type).valueType());
    if (!(type instanceof StructType)) {
      return type instanceof NumericType || type instanceof StringType || type instanceof BinaryType || type instanceof BooleanType
          || type instanceof DateType || type instanceof TimestampType || type instanceof TimestampNTZType || type instanceof DayTimeIntervalType;
    }
    StructField[] fields = ((StructType) type).fields();
    Set names = new HashSet();
    for (int i = 0; i < fields.length; i++) if (!names.add(fields[i].name().toLowerCase(Locale.ROOT)) || !isCarried(fields[i].dataType())) return false;
    return fields.length > 0;
  }

  /** The table with some of the columns of `rows`, and the vectors as the last one. */
  JoinedTable table(List columns) { return JoinedTable.of(new Project(NearestJoins.seq(columns), rows)); }

  /** The column of `rows` with the vectors. */
  Attribute vector() { return (Attribute) rows.output().last(); }

  /** The generator of the columns of the table for a vector. */
  UserDefinedGenerator on(Expression vector) {
    return new UserDefinedGenerator(schema, this, NearestJoins.seq(Collections.singletonList(vector)));
  }

  public Object apply(Object vector) {
    throw new UnsupportedOperationException("a join by nearness with a lance table needs the rule " + NearestStages.NAME
        + ", which is switched off or has failed; exclude the rule lance_spark.NearestJoins, too, so that Spark makes a cross product");
  }

  public boolean equals(Object other) {
    return other instanceof NearestCall && ((NearestCall) other).key().equals(key()) && ((NearestCall) other).rows.sameResult(rows);
  }

  public int hashCode() { return key().hashCode() * 31 + rows.semanticHash(); }
  private List key() { return Arrays.asList(new Object[] { metric, Integer.valueOf(k), Boolean.valueOf(isExact), Boolean.valueOf(isLeft) }); }
}
