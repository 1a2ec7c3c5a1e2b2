package lancespark.columnar;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import lancespark.protocol.MessageWriter;
import lancespark.protocol.Names;
import lancespark.protocol.Protocol;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The first rows of a task that writes. If they are all, and few, they go to the driver in the commit message, and the process that commits
 * writes them: a worker for them would take longer than all the rest of a small write.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
final class FewRows {
  private static final int ROWS = 100;
  private static final long BYTES = 1 << 14;
  /** Of a row whose size is unknown. */
  private static final long ROW_BYTES = 1 << 10;
  /** In the order of the message Few. */
  private static final int NUMBERS = 8, ROWS_AT = 2, DELETED_AT = 5, INSERTED_AT = 7;
  private final List rows = new ArrayList();
  private final Iterator rest;
  private final boolean all;

  FewRows(Iterator source) {
    long bytes = 0;
    while (rows.size() < ROWS && bytes < BYTES && source.hasNext()) {
      // Spark uses the object again for the next row.
      InternalRow row = ((InternalRow) source.next()).copy();
      rows.add(row);
      bytes += row instanceof UnsafeRow ? ((UnsafeRow) row).getSizeInBytes() : ROW_BYTES;
    }
    rest = source;
    all = rows.size() < ROWS && bytes < BYTES;
  }

  /** True if there are no others. */
  boolean areAll() { return all; }

  /** All rows of the task. */
  Iterator iterator() { return new Chain(rows.iterator(), rest); }

  WriterCommitMessage message(StructType schema, boolean areChanges) {
    return new PythonWriterCommitMessage(report(schema, areChanges).pickle(stream(schema)));
  }

  /** The rows in Arrow's stream format; empty if there are none. */
  private byte[] stream(StructType schema) {
    if (rows.isEmpty()) return new byte[0];
    scala.collection.Iterator source = CollectionConverters.asScala(rows.iterator());
    return (byte[]) ArrowConverters$.MODULE$.toBatchWithSchemaIterator(source, schema, ROWS, Long.MAX_VALUE, "UTC", false, false).next();
  }

  /** The rows, and the files that they will be in. Of delta rows, updated ones are in one file, inserted ones in another, deleted ones in none. */
  private MessageWriter report(StructType schema, boolean areChanges) {
    long[] numbers = new long[NUMBERS];
    int operation = Arrays.asList(schema.fieldNames()).indexOf(Names.ROW_OPERATION);
    for (int i = 0; areChanges && i < rows.size(); i++) {
      int kind = operation < 0 ? INSERTED_AT : ((InternalRow) rows.get(i)).getInt(operation);
      numbers[Math.min(DELETED_AT + kind - 1, INSERTED_AT)]++;
    }
    long moved = numbers[DELETED_AT + 1];
    numbers[ROWS_AT] = rows.size() - numbers[DELETED_AT];
    numbers[0] = (moved > 0 ? 1 : 0) + (numbers[ROWS_AT] > moved ? 1 : 0);
    MessageWriter few = new MessageWriter(Protocol.FEW);
    for (int i = 0; i < NUMBERS; i++) few.integer(numbers[i]);
    return few;
  }

  private static final class Chain implements Iterator {
    private final Iterator first, second;

    Chain(Iterator first, Iterator second) {
      this.first = first;
      this.second = second;
    }

    public boolean hasNext() { return first.hasNext() || second.hasNext(); }
    public Object next() { return first.hasNext() ? first.next() : second.next(); }
    public void remove() { throw new UnsupportedOperationException(); }
  }
}
