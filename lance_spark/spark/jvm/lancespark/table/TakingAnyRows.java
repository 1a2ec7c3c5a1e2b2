package lancespark.table;

import java.util.*;
import org.apache.spark.sql.connector.catalog.TableCapability;

/** A lance table as the target of delta rows, whose columns are not its own. It equals the table, so that Spark refreshes cached queries. */
@SuppressWarnings({"rawtypes", "unchecked"})
public class TakingAnyRows extends LanceTable {
  public TakingAnyRows(LanceTable table) { super(table); }

  public Set capabilities() {
    Set capabilities = super.capabilities();
    capabilities.add(TableCapability.ACCEPT_ANY_SCHEMA);
    return capabilities;
  }
}
