package lancespark.changelog;

import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.*;
import lancespark.protocol.Json;
import lancespark.protocol.Names;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.constraints.Check;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.catalog.constraints.PrimaryKey;

/** The constraints of a new table as properties, which lance_spark.spark.catalog.definition takes. */
@SuppressWarnings({"rawtypes", "unchecked"})
class Constraints {

  private Constraints() {}

  /** The properties of a new table, with its constraints. */
  static Map properties(TableInfo info) {
    Map all = new HashMap(info.properties());
    Constraint[] given = info.constraints();
    for (int i = 0; given != null && i < given.length; i++) {
      if (given[i] instanceof Check) all.put(Names.CONSTRAINT + given[i].name(), ((Check) given[i]).predicateSql());
      else if (given[i] instanceof PrimaryKey) all.put(Names.PRIMARY_KEY, Json.text(names((PrimaryKey) given[i])));
      else throw new UnsupportedOperationException("lance tables have the constraints NOT NULL, CHECK and PRIMARY KEY; leave out " + given[i].toDDL());
    }
    return all;
  }

  /** True for the property of a CHECK constraint. */
  static boolean isOne(String property) { return property.startsWith(Names.CONSTRAINT); }

  private static ArrayNode names(PrimaryKey key) {
    ArrayNode names = Json.array();
    for (int i = 0; i < key.columns().length; i++) names.add(String.join(".", key.columns()[i].fieldNames()));
    return names;
  }
}
