package lancespark.protocol;

/** What the classes and Python tell each other: the number of the protocol, and the kinds of messages. Python's half is lance_spark.spark.protocol. */
public final class Protocol {
  /** The number, which Python has, too. Who changes a message or a name raises it. */
  public static final int VERSION = 7;
  public static final int SOURCE = 1, TASK = 2, FOUND = 3, STEPS = 4, READ = 5, WRITER = 6, WRITTEN = 7, BOUND = 8, FEW = 9, AGAIN = 10;
  /** The messages in the order of their kinds: the name, and the types of the fields, of which q is an integer, s text, b bytes and j JSON. */
  static final String[] MESSAGES = {
    "Source qsss", "Task qqqqqs", "Found qb", "Steps jb", "Read qqqqqqqq", "Writer q", "Written qqqqqqqq", "Bound j", "Few qqqqqqqq", "Again "
  };
  /** What Found says: the rows of a search, that a scan finds them, or that the partitions are its tasks. */
  public static final long ROWS = 0, BY_A_SCAN = 1, TASKS = 2;
  /** What Writer says of tasks that have few rows: that its commit writes them, or that it writes their delta rows. */
  public static final long FEW_ROWS = 1, FEW_CHANGES = 2;

  private Protocol() {}

  /** Fails if Python has another protocol. */
  public static void check(int python) {
    if (python == VERSION) return;
    throw new UnsupportedOperationException("Spark has the classes of protocol " + VERSION + ", Python has " + python
        + ": write the jar again (python -m lance_spark jar), and start Spark with it and with the lance-spark that wrote it");
  }
}
