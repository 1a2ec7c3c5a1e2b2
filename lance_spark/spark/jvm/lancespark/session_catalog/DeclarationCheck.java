package lancespark.session_catalog;

import java.util.*;
import org.apache.spark.sql.types.StructType;

/** Knows what a lance table may have. */
public interface DeclarationCheck {
  /** Raises an error for properties and columns that it may not have. `columns` may be null. */
  void check(Map properties, StructType columns);
}
