package lancespark.search;

import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.ByteArrayInputStream;
import java.util.*;
import lancespark.protocol.Json;
import lancespark.protocol.Message;
import lancespark.protocol.Protocol;
import lancespark.scan.Size;
import lancespark.scan.TaskLoop;
import lancespark.source.Source;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;

/**
 * The rows of a search for vectors, which Spark has when the query is planned: then the query needs no job for them.
 *
 * A Python process of the driver finds them (lance_spark.spark.read.search_reader). If there is much to compare, it names tasks, and gets
 * their results when it is asked again.
 */
@SuppressWarnings({"rawtypes", "unchecked", "cast"})
class FoundRows extends TaskLoop implements LocalScan, SupportsReportStatistics {
  /** Spark plans a query several times. This has the last rows for each PythonDataSourceV2. */
  private static final Map last = new WeakHashMap();

  private final Source source;
  private final StructType schema;
  private final byte[] pickle;
  private byte[] answer;
  private InternalRow[] rows;

  private FoundRows(Source source, StructType schema, byte[] pickle) {
    this.source = source;
    this.schema = schema;
    this.pickle = pickle;
  }

  /** The scan of the rows, which are found now if little is to be compared; null if a scan of tables finds them, or reports why not. */
  static Scan of(Source source, StructType schema) {
    try {
      PythonDataSourceV2 spark = source.spark();
      synchronized (last) {
        FoundRows known = (FoundRows) last.get(spark);
        if (known != null && known.pickle == source.pickle() && known.schema.equals(schema)) return known.isHere() ? known : null;
      }
      FoundRows found = new FoundRows(source, schema, source.pickle());
      found.begin();
      synchronized (last) {
        last.put(spark, found);
      }
      return found.isHere() ? found : null;
    } catch (Exception e) {
      return null;
    }
  }

  private boolean isHere() { return hasTasks() || answer != null; }

  protected Table ask(ArrayNode results) {
    String request = Json.text(source.request().put("schema", schema.json()).set("results", results));
    Batch batch = source.batch(request, RESULT);
    byte[] first = ((PythonInputPartition) batch.planInputPartitions()[0]).pickedPartition();
    Message found = Message.header(first, Protocol.FOUND);
    long what = found.integer();
    answer = what == Protocol.ROWS ? found.bytes() : null;
    return what == Protocol.TASKS ? new TasksTable(batch, RESULT) : null;
  }

  public synchronized InternalRow[] rows() {
    try {
      finish();
      if (rows == null) rows = decoded(answer, schema);
    } catch (Exception e) {
      Platform.throwException(e);
    }
    return rows;
  }

  private static InternalRow[] decoded(byte[] stream, StructType schema) throws Exception {
    UnsafeProjection copy = UnsafeProjection$.MODULE$.create(schema);
    List out = new ArrayList();
    BufferAllocator allocator = ArrowUtils.rootAllocator().newChildAllocator("rows of a lance search", 0, Long.MAX_VALUE);
    ArrowStreamReader reader = new ArrowStreamReader(new ByteArrayInputStream(stream), allocator);
    try {
      VectorSchemaRoot root = reader.getVectorSchemaRoot();
      while (reader.loadNextBatch()) {
        ColumnVector[] columns = new ColumnVector[root.getFieldVectors().size()];
        for (int i = 0; i < columns.length; i++) columns[i] = new ArrowColumnVector((FieldVector) root.getFieldVectors().get(i));
        Iterator it = new ColumnarBatch(columns, root.getRowCount()).rowIterator();
        while (it.hasNext()) out.add(copy.apply((InternalRow) it.next()).copy());
      }
    } finally {
      reader.close();
      allocator.close();
    }
    return (InternalRow[]) out.toArray(new InternalRow[out.size()]);
  }

  public StructType readSchema() { return schema; }
  public String description() { return "rows of a lance search"; }

  public Statistics estimateStatistics() {
    long count = rows().length;
    return new Size(OptionalLong.of(Math.max(count * schema.defaultSize(), 1)), OptionalLong.of(count));
  }
}
