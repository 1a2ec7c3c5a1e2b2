package lancespark.table;

import java.util.*;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;

/** A table of the session catalog as the target of a write that replaces rows by a condition, or adds columns. */
public class SessionTable extends LanceTable {
  public SessionTable(Table table, Identifier id) throws Exception { super(inCatalog(table, id)); }

  public Set capabilities() {
    Set capabilities = super.capabilities();
    capabilities.add(TableCapability.OVERWRITE_BY_FILTER);
    addEvolution(capabilities);
    return capabilities;
  }
}
