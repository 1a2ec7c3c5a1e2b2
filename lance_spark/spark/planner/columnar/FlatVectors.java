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
import org.apache.spark.unsafe.Platform;

/** Makes a flat vector of an Arrow array, once it is verified that the type is Spark's and that all values lie within the buffers. */
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

  static FlatVector[] fields(StructVector struct, StructType type, int rows, String path, BatchMemory memory) {
    StructField[] fields = type.fields();
    if (struct.size() != fields.length) {
      throw new IllegalStateException("column " + path + ": expected " + fields.length + " fields, the worker sent " + struct.size());
    }
    FlatVector[] out = new FlatVector[fields.length];
    for (int i = 0; i < out.length; i++) {
      String name = path.isEmpty() ? fields[i].name() : path + "." + fields[i].name();
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
