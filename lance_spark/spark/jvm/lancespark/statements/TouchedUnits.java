package lancespark.statements;

import java.util.*;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The units of a materialized view that a refresh computes anew: their ids of rows, or their keys.
 *
 * A join with them reads all rows. So if they are few, scans are filtered by their values first, which the reader does, by an index if there is one.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
class TouchedUnits {
  /** More values cost the reader more than they save. */
  private static final int MOST_VALUES = 20000;
  private final LogicalPlan keys;
  /** The different values of each key that are not null; null in the place of those that are too many, or of a type whose values may be equal and not the same. */
  private final List values = new ArrayList();
  private final boolean[] hasNull;

  /** `units` are persisted, and different from each other. */
  TouchedUnits(Dataset units) {
    keys = units.queryExecution().analyzed();
    StructField[] fields = units.schema().fields();
    hasNull = new boolean[fields.length];
    boolean areFew = units.count() <= MOST_VALUES;
    for (StructField field : fields) values.add(areFew && isPlain(field.dataType()) ? new HashSet() : null);
    if (!areFew) return;
    for (InternalRow row : units.queryExecution().executedPlan().executeCollect()) {
      for (int i = 0; i < fields.length; i++) add(i, row.isNullAt(i) ? null : row.get(i, fields[i].dataType()));
    }
  }

  private void add(int key, Object value) {
    if (value == null) hasNull[key] = true;
    else if (values.get(key) != null) ((Set) values.get(key)).add(value);
  }

  private static boolean isPlain(DataType type) {
    boolean isNumber = type instanceof LongType || type instanceof IntegerType || type instanceof ShortType || type instanceof ByteType;
    boolean isText = type instanceof StringType && ((StringType) type).supportsBinaryEquality();
    return isNumber || isText || type instanceof DateType || type instanceof BooleanType;
  }

  /** The rows of a plan that belong to the units, by the expressions that are their keys. */
  LogicalPlan of(LogicalPlan rows, List keyValues) {
    LogicalPlan few = rows;
    Expression same = null;
    for (int i = 0; i < keyValues.size(); i++) {
      Expression key = (Expression) keyValues.get(i);
      if (values.get(i) != null) few = new Filter(isAmong(key, i), few);
      Expression one = new EqualNullSafe(key, (Expression) keys.output().apply(i));
      same = same == null ? one : new And(same, one);
    }
    if (keyValues.size() == 1 && values.get(0) != null) return few;
    return new Join(few, keys, LeftSemi$.MODULE$, new scala.Some(same), JoinHint$.MODULE$.NONE());
  }

  private Expression isAmong(Expression key, int number) {
    Expression known = new InSet(key, CollectionConverters.asScala((Set) values.get(number)).toSet());
    return hasNull[number] ? new Or(new IsNull(key), known) : known;
  }
}
