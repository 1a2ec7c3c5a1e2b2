package lancespark.scan;

import lancespark.protocol.Message;
import lancespark.protocol.Protocol;

/** The header of a pickled partition: what its task reads at most, and what planning has skipped. */
public final class TaskSize {
  public final long rows, bytes;
  /** Of a partitioned namespace: the number of tables that are read, and of all. */
  public final long tablesRead, tables;
  /** The number of fragments that no task of the scan reads. */
  public final long skipped;
  /** The names of the indexes that planning used, and the rows that they leave. */
  public final String indexes;

  private TaskSize(Message header) {
    rows = header.integer();
    bytes = header.integer();
    tablesRead = header.integer();
    tables = header.integer();
    skipped = header.integer();
    indexes = header.text();
  }

  /** Null for other partitions. */
  public static TaskSize of(byte[] partition) {
    Message header = Message.header(partition, Protocol.TASK);
    return header == null ? null : new TaskSize(header);
  }
}
