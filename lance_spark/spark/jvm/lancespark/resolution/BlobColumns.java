package lancespark.resolution;

import java.util.Arrays;
import lancespark.table.LanceTable;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.jdk.javaapi.CollectionConverters;

/** The columns c__blob_pos and c__blob_size that the JVM connector adds for a blob column c, and that are not there: what to write instead. */
@SuppressWarnings({"rawtypes", "cast"})
class BlobColumns {
  private static final String[] ENDS = { "__blob_pos", "__blob_size" };

  private BlobColumns() {}

  /** Raises UnsupportedOperationException for a node that names one of them, of a lance table below it. */
  static void check(LogicalPlan plan) {
    for (Expression expression : CollectionConverters.asJava(plan.expressions())) check(expression, plan);
  }

  private static void check(Expression expression, LogicalPlan plan) {
    if (expression instanceof UnresolvedAttribute) {
      String name = (String) ((UnresolvedAttribute) expression).nameParts().last();
      for (int i = 0; i < ENDS.length; i++) {
        if (!name.endsWith(ENDS[i]) || hasColumn(plan, name)) continue;
        String column = name.substring(0, name.length() - ENDS[i].length());
        if (hasColumn(plan, column)) throw new UnsupportedOperationException("there is no column " + name + ": " + instead(column));
      }
    }
    for (Expression child : CollectionConverters.asJava(expression.children())) check(child, plan);
  }

  private static String instead(String column) {
    return "for the place of a blob write spark.read.format('lance').option('blob_handling', 'descriptor').load(path), and " + column + ".position and "
        + column + ".size";
  }

  private static boolean hasColumn(LogicalPlan plan, String column) {
    for (Object leaf : CollectionConverters.asJava(plan.collectLeaves())) {
      boolean isLance = leaf instanceof DataSourceV2Relation && ((DataSourceV2Relation) leaf).table() instanceof LanceTable;
      if (isLance && Arrays.asList(((DataSourceV2Relation) leaf).schema().fieldNames()).contains(column)) return true;
    }
    return false;
  }
}
