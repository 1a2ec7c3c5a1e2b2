package lancespark.source;

import java.util.*;
import lancespark.protocol.Names;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** The columns that no data file contains. Queries can name them, and `*` does not include them. See lance_spark.metadata.row_columns. */
@SuppressWarnings("rawtypes")
public class MetadataColumns {
  private static final MetadataColumn[] ALL = {
    new LanceColumn(Names.ROW_ID, DataTypes.LongType, false, "the row's id"),
    new LanceColumn(Names.ROW_ADDRESS, DataTypes.LongType, false, "the fragment and the row's position in it"),
    new LanceColumn("_fragid", DataTypes.IntegerType, false, "the fragment"),
    new LanceColumn("_row_created_at_version", DataTypes.LongType, true, "the version that inserted the row"),
    new LanceColumn("_row_last_updated_at_version", DataTypes.LongType, true, "the last version that changed the row"),
    new LanceColumn("_metadata", StructType.fromDDL("file_path STRING NOT NULL, file_name STRING NOT NULL, row_index BIGINT NOT NULL, "
        + "row_id BIGINT, row_commit_version BIGINT"), false, "the row's data file, its place in it, its id, and the last version that changed it"),
  };

  /** The column that an option of reads adds to those of a path; null for other options. */
  public static String addedBy(String option) {
    if (option.equalsIgnoreCase(Names.WITH_ROW_ID)) return Names.ROW_ID;
    return option.equalsIgnoreCase(Names.WITH_ROW_ADDRESS) ? Names.ROW_ADDRESS : null;
  }

  public static boolean isOne(String name) {
    for (int i = 0; i < ALL.length; i++) if (ALL[i].name().equalsIgnoreCase(name)) return true;
    return false;
  }

  public static MetadataColumn[] all() {
    MetadataColumn[] all = new MetadataColumn[ALL.length];
    System.arraycopy(ALL, 0, all, 0, all.length);
    return all;
  }

  /** A table's schema, followed by the metadata columns that it does not have itself. */
  public static StructType with(StructType schema) {
    List names = Arrays.asList(schema.fieldNames());
    for (int i = 0; i < ALL.length; i++) if (!names.contains(ALL[i].name())) schema = schema.add(ALL[i].name(), ALL[i].dataType(), ALL[i].isNullable());
    return schema;
  }
}
