package lancespark.columnar;

import java.util.Arrays;
import java.util.List;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.BaseVariableWidthVector;
import org.apache.arrow.vector.BitVector;
import org.apache.arrow.vector.NullVector;
import org.apache.arrow.vector.ValueVector;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.arrow.vector.complex.StructVector;
import org.apache.spark.sql.types.*;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;

/**
 * Makes a flat vector of an Arrow array, once it is verified that the type is Spark's and that all values lie within the buffers.
 *
 * The worker sends a batch as one row, whose lists have the values of the columns: see lance_spark.spark.read.column_lists.
 */
@SuppressWarnings("rawtypes")
final class FlatVectors {
  /** The types without parts that have a flat vector; time(n) is missing in Spark 4.0. StringType has subclasses. */
  private static final List SIMPLE = Arrays.asList(new String[] { "NullType", "BooleanType", "ByteType", "ShortType", "IntegerType", "LongType",
    "FloatType", "DoubleType", "DecimalType", "DateType", "TimestampType", "TimestampNTZType", "DayTimeIntervalType", "TimeType", "BinaryType" });

  private FlatVectors() {}

  /** The first column with a type that has no flat vector, and its type; null if there is none. */
  static String unsupported(StructType schema) {
    StructField[] fields = schema.fields();
    for (int i = 0; i < fields.length; i++) {
      if (!isSupported(fields[i].dataType())) return "column " + fields[i].name() + " is " + fields[i].dataType().simpleString();
    }
    return null;
  }

  private static boolean isSupported(DataType type) {
    if (type instanceof StructType) return unsupported((StructType) type) == null;
    if (type instanceof ArrayType) return isSupported(((ArrayType) type).elementType());
    if (type instanceof MapType) return isSupported(((MapType) type).keyType()) && isSupported(((MapType) type).valueType());
    return type instanceof StringType || SIMPLE.contains(type.getClass().getSimpleName().replace("$", ""));
  }

  private static boolean hasCodes(DataType type) { return type instanceof StringType || type instanceof BinaryType || type instanceof DecimalType; }

  /** The schema of the row that the worker sends for a batch of `schema`. */
  static StructType sent(StructType schema) {
    StructField[] fields = schema.fields(), sent = new StructField[fields.length + 1];
    sent[0] = DataTypes.createStructField("rows", DataTypes.IntegerType, false);
    for (int i = 0; i < fields.length; i++) {
      StructField values = DataTypes.createStructField("values", DataTypes.createArrayType(fields[i].dataType(), fields[i].nullable()), false);
      StructField codes = DataTypes.createStructField("codes", DataTypes.BinaryType, false);
      DataType type = hasCodes(fields[i].dataType()) ? DataTypes.createStructType(new StructField[] { values, codes }) : values.dataType();
      sent[i + 1] = DataTypes.createStructField("_" + i, type, false);
    }
    return DataTypes.createStructType(sent);
  }

  /** The columns of the batch that the worker has sent. */
  static ColumnarBatch batch(StructVector sent, StructType schema, BatchMemory memory) {
    StructField[] fields = schema.fields();
    if (sent.size() != fields.length + 1) throw new IllegalStateException("expected " + fields.length + " columns, the worker sent " + (sent.size() - 1));
    int rows = of(within(sent.getVectorById(0), 1, "rows"), DataTypes.IntegerType, "rows", memory).getInt(0);
    FlatVector[] columns = new FlatVector[fields.length];
    for (int i = 0; i < columns.length; i++) {
      ValueVector column = within(sent.getVectorById(i + 1), 1, fields[i].name());
      columns[i] = column(column, rows, fields[i].dataType(), fields[i].name(), memory).asColumn();
    }
    return new ColumnarBatch(columns, rows);
  }

  private static FlatVector column(ValueVector sent, int rows, DataType type, String path, BatchMemory memory) {
    ValueVector list = sent;
    if (hasCodes(type)) {
      list = ((StructVector) sent).getVectorById(0);
      ValueVector codes = ((StructVector) sent).getVectorById(1);
      int bytes = end(offsets(codes, 1, path), 1, path);
      if (bytes > 0) return coded(values(list, type, path, memory), rows, address(codes.getDataBuffer(), bytes, path), bytes, path);
    }
    FlatVector values = values(list, type, path, memory);
    if (values.rows() != rows) throw new IllegalStateException("column " + path + ": expected " + rows + " values, the worker sent " + values.rows());
    return values;
  }

  /** The vector of all values in the one list of an array. */
  private static FlatVector values(ValueVector list, DataType type, String path, BatchMemory memory) {
    int count = end(offsets(list, 1, path), 1, path);
    return of(within(((ListVector) list).getDataVector(), count, path), type, path, memory);
  }

  private static FlatVector coded(FlatVector values, int rows, long codes, int bytes, String path) {
    int width = bytes / Math.max(rows, 1), largest = 0;
    if ((width != 1 && width != 2) || bytes != width * rows) {
      throw new IllegalStateException("column " + path + ": expected codes of one or two bytes for " + rows + " rows, the worker sent " + bytes + " bytes");
    }
    for (int i = 0; i < rows; i++) {
      largest = Math.max(largest, width == 1 ? Platform.getByte(null, codes + i) & 0xff : Platform.getShort(null, codes + 2L * i) & 0xffff);
    }
    if (largest >= values.rows()) throw new IllegalStateException("column " + path + ": the code " + largest + " is out of " + values.rows() + " values");
    return values.coded(rows, codes, width);
  }

  /** The vector of `array`, which is named `path` in errors. */
  static FlatVector of(ValueVector array, DataType type, String path, BatchMemory memory) {
    int rows = array.getValueCount(), nulls = array.getNullCount();
    if (array instanceof NullVector && type instanceof NullType) return new FlatVector(type, memory, rows, rows, 0, 0, 0, null);
    long validity = nulls == 0 ? 0 : address(array.getValidityBuffer(), (rows + 7) / 8, path);
    if (array instanceof StructVector && type instanceof StructType) {
      return new FlatVector(type, memory, rows, nulls, validity, 0, 0, fields((StructVector) array, (StructType) type, rows, path, memory));
    }
    if (array instanceof BaseVariableWidthVector && (type instanceof StringType || type instanceof BinaryType)) {
      long offsets = offsets(array, rows, path), data = address(array.getDataBuffer(), end(offsets, rows, path), path);
      return new FlatVector(type, memory, rows, nulls, validity, offsets, data, null);
    }
    if (array instanceof ListVector && (type instanceof ArrayType || type instanceof MapType)) {
      long offsets = offsets(array, rows, path);
      return new FlatVector(type, memory, rows, nulls, validity, offsets, 0, items((ListVector) array, type, end(offsets, rows, path), path, memory));
    }
    if (array instanceof BitVector && type instanceof BooleanType) {
      return new FlatVector(type, memory, rows, nulls, validity, 0, address(array.getDataBuffer(), (rows + 7) / 8, path), null);
    }
    int width = type instanceof DecimalType ? 16 : type.defaultSize();
    if (array instanceof BaseFixedWidthVector && !(array instanceof BitVector) && ((BaseFixedWidthVector) array).getTypeWidth() == width) {
      return new FlatVector(type, memory, rows, nulls, validity, 0, address(array.getDataBuffer(), (long) rows * width, path), null);
    }
    throw new IllegalStateException("column " + path + ": expected " + type.simpleString() + ", the worker sent " + array.getField());
  }

  private static FlatVector[] fields(StructVector struct, StructType type, int rows, String path, BatchMemory memory) {
    StructField[] fields = type.fields();
    if (struct.size() != fields.length) {
      throw new IllegalStateException("column " + path + ": expected " + fields.length + " fields, the worker sent " + struct.size());
    }
    FlatVector[] out = new FlatVector[fields.length];
    for (int i = 0; i < out.length; i++) {
      String name = path + "." + fields[i].name();
      out[i] = of(within(struct.getVectorById(i), rows, name), fields[i].dataType(), name, memory);
    }
    return out;
  }

  private static FlatVector[] items(ListVector list, DataType type, int items, String path, BatchMemory memory) {
    if (type instanceof ArrayType) {
      ValueVector elements = within(list.getDataVector(), items, path);
      return new FlatVector[] { of(elements, ((ArrayType) type).elementType(), path + ".element", memory) };
    }
    MapType map = (MapType) type;
    StructType entry = new StructType().add("key", map.keyType()).add("value", map.valueType());
    return fields((StructVector) within(list.getDataVector(), items, path), entry, items, path, memory);
  }

  /** The child of a struct or list that has this many rows or items. */
  private static ValueVector within(ValueVector child, int rows, String path) {
    if (child.getValueCount() >= rows) return child;
    throw new IllegalStateException("column " + path + ": expected " + rows + " values, the worker sent " + child.getValueCount());
  }

  private static long address(ArrowBuf buffer, long bytes, String path) {
    if (buffer.capacity() >= bytes) return buffer.memoryAddress();
    throw new IllegalStateException("column " + path + ": expected a buffer of " + bytes + " bytes, the worker sent " + buffer.capacity());
  }

  private static long offsets(ValueVector array, int rows, String path) {
    return address(array.getOffsetBuffer(), rows == 0 ? 0 : 4L * (rows + 1), path);
  }

  /** The last of the offsets, of which none may be less than the one before. */
  private static int end(long offsets, int rows, String path) {
    int end = 0;
    for (int i = 0; rows > 0 && i <= rows; i++) {
      int next = Platform.getInt(null, offsets + 4L * i);
      if (next < end) throw new IllegalStateException("column " + path + ": the offset " + next + " follows " + end);
      end = next;
    }
    return end;
  }
}
