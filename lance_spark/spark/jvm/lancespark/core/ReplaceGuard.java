package lancespark.core;

import java.util.*;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The optimizer rule that rejects CREATE OR REPLACE TABLE and similar statements on a lance table if Spark would drop the table before it runs
 * the query. It runs after CatalogTables, which replaces tables in one commit, and rejects the statements that CatalogTables did not change.
 *
 * It must work where the other rules do not, so beyond the public API it uses only the two classes that every rule needs.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
public class ReplaceGuard extends Rule {
  public ReplaceGuard() {}

  public String ruleName() { return "lance_spark.ReplaceGuard"; }

  public TreeNode apply(TreeNode plan) {
    String table = plan.getClass().getSimpleName().startsWith("ReplaceTable") ? dropped((scala.Product) plan) : null;
    if (table != null) {
      throw new UnsupportedOperationException("the lance table " + table + " was not replaced, because Spark would drop it before running the query: "
          + "lance_spark's rule for catalog tables is disabled or does not support this version of Spark. Use INSERT OVERWRITE " + table
          + " (insertInto with mode overwrite), which replaces the rows in one commit; for other columns, write a new table");
    }
    return plan;
  }

  public void addTo(SparkSession session) throws ReflectiveOperationException { addTo(session, Collections.singletonList(this)); }

  /** Adds rules to a session as extra optimizations, except those that exist. */
  public static void addTo(SparkSession session, List rules) throws ReflectiveOperationException {
    Object experimental = session.getClass().getMethod("experimental", new Class[0]).invoke(session, new Object[0]);
    Object old = experimental.getClass().getMethod("extraOptimizations", new Class[0]).invoke(experimental, new Object[0]);
    List all = new ArrayList(CollectionConverters.asJava((scala.collection.Seq) old));
    Set names = new HashSet();
    for (int i = 0; i < all.size(); i++) names.add(((Rule) all.get(i)).ruleName());
    for (int i = 0; i < rules.size(); i++) if (names.add(((Rule) rules.get(i)).ruleName())) all.add(rules.get(i));
    if (all.size() == ((scala.collection.Seq) old).size()) return;
    Class[] type = { scala.collection.immutable.Seq.class };
    experimental.getClass().getMethod("extraOptimizations_$eq", type).invoke(experimental, new Object[] { CollectionConverters.asScala(all).toSeq() });
  }

  /** The name of the lance table that a statement would drop and replace by another lance table, or null. */
  private static String dropped(scala.Product statement) {
    boolean makesLanceTable = false;
    String table = null;
    for (int i = 0; i < statement.productArity(); i++) {
      Object argument = statement.productElement(i);
      String kind = argument.getClass().getSimpleName();
      if (kind.endsWith("TableSpec")) makesLanceTable = isLance(argument);
      if (kind.equals("ResolvedIdentifier")) table = lanceTable(((scala.Product) argument).productElement(0), ((scala.Product) argument).productElement(1));
    }
    return makesLanceTable ? table : null;
  }

  private static boolean isLance(Object tableSpec) {
    try {
      scala.Option provider = (scala.Option) tableSpec.getClass().getMethod("provider", new Class[0]).invoke(tableSpec, new Object[0]);
      Object name = provider.isEmpty() ? SparkSession.active().conf().get("spark.sql.sources.default") : provider.get();
      return "lance".equalsIgnoreCase((String) name);
    } catch (ReflectiveOperationException e) {
      return false;
    }
  }

  private static String lanceTable(Object catalog, Object name) {
    if (catalog instanceof ReplacesAtOnce || !(catalog instanceof TableCatalog) || !(name instanceof Identifier)) return null;
    return hasLanceTable((TableCatalog) catalog, (Identifier) name) ? name.toString() : null;
  }

  /** True for the name of a lance table in the session catalog or in an extension of it. */
  private static boolean hasLanceTable(TableCatalog catalog, Identifier name) {
    if (!catalog.name().equals("spark_catalog") || !catalog.tableExists(name)) return false;
    Table table;
    try {
      table = catalog.loadTable(name);
    } catch (Exception e) {
      return false;
    }
    return "lance".equalsIgnoreCase(table.name()) || "lance".equalsIgnoreCase((String) table.properties().get(TableCatalog.PROP_PROVIDER));
  }
}
