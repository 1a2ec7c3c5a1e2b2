package lancespark.protocol;

/** The names that Python knows, too: a test compares them with lance_spark.spark.protocol, and with the modules that own those of tables. */
public final class Names {
  /** The formats. That of catalogs is for catalogs alone. */
  public static final String FORMAT = "lance", CATALOG_FORMAT = "lance catalog";
  /** The class of the format of catalogs. */
  public static final String CATALOG_MODULE = "lance_spark.spark.catalog.source", CATALOG_CLASS = "CatalogSource";
  /** The daemons that fork workers, and processes that plan, and the module that answers in these. */
  public static final String WORKER_DAEMON = "lance_spark.spark.daemon", PLANNING_DAEMON = "lance_spark.spark.planning_daemon",
      PLANNING_MODULE = "pyspark_lance.planning";
  /** The options with instructions, and with a request to the catalog; where its answer is in the metadata of a column. */
  public static final String INSTRUCTIONS = "__lance", REQUEST = "request", ANSWER = "answer";
  /** The key of the number of the protocol in instructions, requests and answers. */
  public static final String NUMBER = "protocol";
  /** In the metadata of a column of rows: a statement declares whether it is nullable. */
  public static final String DECLARED_COLUMN = "__lance_declared";
  /** The column of Spark's delta rows with numbers from 1 on: delete, update, insert, insert again. If a MERGE only inserts rows, it is not there. */
  public static final String ROW_OPERATION = "__row_operation";
  public static final String ROW_ID = "_rowid", ROW_ADDRESS = "_rowaddr";
  /** Before the names of TBLPROPERTIES among the options of a table. */
  public static final String TABLE_PROPERTY = "tblproperties.";
  /** Properties of tables. The last one notes in an entry of the session catalog that the table has had a version. */
  public static final String CLUSTERING = "lance_spark.clustering", CONSTRAINT = "lance_spark.constraint.", PRIMARY_KEY = "lance_spark.primary_key",
      WRITTEN = "lance_spark.written";
  /** The setting of a catalog with the id of its open transaction. */
  public static final String TRANSACTION = "transaction";
  /** The options that say where a table is, with spaces between. */
  public static final String PLACE_OPTIONS = "path table namespace paths";
  /** The options of reads that choose a version, with spaces between, and their names that Spark knows and loads a table of a catalog by. */
  public static final String VERSION_OPTIONS = "version tag branch timestamp asof", LOADED_OPTIONS = "versionAsOf timestampAsOf";
  /** The option that reads changes instead of rows, those that say which, and how they are told. */
  public static final String CHANGE_FEED = "readChangeFeed", STARTING_VERSION = "startingVersion", ENDING_VERSION = "endingVersion",
      STARTING_TIMESTAMP = "startingTimestamp", ENDING_TIMESTAMP = "endingTimestamp", COMPUTE_UPDATES = "computeUpdates", NET_CHANGES = "netChanges";
  /** The options of reads that add the columns ROW_ID and ROW_ADDRESS. */
  public static final String WITH_ROW_ID = "with_row_id", WITH_ROW_ADDRESS = "with_row_address";
  /** The options of a write that adds columns, and that fails if there is a table. */
  public static final String MERGE_SCHEMA = "mergeSchema", WRITE_MODE = "write_mode";
  /** The option of a write whose value `false` keeps the columns, with all that is declared about them. */
  public static final String OVERWRITE_SCHEMA = "overwriteSchema";
  /** The option that replaces only the partitions that have new rows, which a namespace may have and a table has not. */
  public static final String OVERWRITE_MODE = "partitionOverwriteMode";
  /** The functions of texts whose results are columns. */
  public static final String MATCH = "lance_match", MATCH_PHRASE = "lance_match_phrase";
  /** The errors for which Spark has classes (lance_spark.errors). */
  public static final String NO_TABLE = "TableNotFoundError", TABLE_EXISTS = "TableAlreadyExistsError", NO_NAMESPACE = "NamespaceNotFoundError",
      NAMESPACE_EXISTS = "NamespaceAlreadyExistsError", NAMESPACE_NOT_EMPTY = "NamespaceNotEmptyError";
  /** In the metadata of a column of a statement: its expression, or its identity. */
  public static final String COMPUTED = "lance_spark.generated", IDENTITY = "lance_spark.identity";
  /** In the metadata of a column: its lists all have this size. */
  public static final String FIXED_SIZE = "arrow.fixed-size-list.size";

  private Names() {}
}
