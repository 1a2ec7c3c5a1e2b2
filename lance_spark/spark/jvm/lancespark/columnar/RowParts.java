package lancespark.columnar;

import java.util.Iterator;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The rows of a partition in parts of about `limit` bytes, as structs.
 *
 * Spark's runner ends a batch for the worker by the size of its Arrow vectors, which it computes after each row: that takes a third of the
 * time of the JVM. The size of the row says nearly the same.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
final class RowParts implements Iterator {
  private static final int ROWS_OF_UNKNOWN_SIZE = 1000;
  private final Iterator rows;
  private final TaskContext task;
  private final long limit;

  RowParts(Iterator rows, TaskContext task, long limit) {
    this.rows = rows;
    this.task = task;
    this.limit = limit;
  }

  public boolean hasNext() { return !task.isCompleted() && !task.isInterrupted() && rows.hasNext(); }
  public Object next() { return CollectionConverters.asScala(new Part(this)); }

  private long size(InternalRow row) { return row instanceof UnsafeRow ? ((UnsafeRow) row).getSizeInBytes() : limit / ROWS_OF_UNKNOWN_SIZE + 1; }

  private static final class Part implements Iterator {
    private final RowParts all;
    private final Object[] field = new Object[1];
    /** The same object for all rows, because each is copied into a vector before the next one is asked for. */
    private final InternalRow struct = new GenericInternalRow(field);
    private long bytes = 0;

    Part(RowParts all) { this.all = all; }

    public boolean hasNext() { return bytes < all.limit && all.hasNext(); }

    public Object next() {
      InternalRow row = (InternalRow) all.rows.next();
      bytes += all.size(row);
      field[0] = row;
      return struct;
    }

    public void remove() { throw new UnsupportedOperationException(); }
  }

  public void remove() { throw new UnsupportedOperationException(); }
}
