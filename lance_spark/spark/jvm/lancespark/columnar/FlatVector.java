package lancespark.columnar;

import java.math.BigDecimal;
import java.math.BigInteger;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The values of an Arrow array as Spark reads them: each is one access to memory.
 *
 * One class serves all types, so that the calls in Spark's generated code have one target. It knows only addresses; FlatVectors makes it, and
 * verifies before that all values lie within the array's buffers. The addresses are valid until the memory of the batch is freed.
 */
public final class FlatVector extends ColumnVector {
  /** True if each access verifies its row, and that the memory is not freed: for tests, set by a system property. */
  public static final boolean CHECKED = Boolean.getBoolean("lancespark.columnar.checked");

  private final BatchMemory memory;
  private final int rows, nulls;
  private final long validity, offsets, data, codes;
  private final int codeBytes;
  private final FlatVector[] children;
  /** The texts of a dictionary that a row had, by their places: one object for each, not for each row. Nothing changes a text. */
  private final UTF8String[] texts;
  private boolean isOpenColumn;

  /**
   * `validity`, `offsets` and `data` are addresses of Arrow's buffers, or 0 if the array has none or needs none. Without a validity
   * buffer, an array with nulls has nothing but nulls. Children are the items of a list, the keys and values of a map, the fields of a struct.
   */
  FlatVector(DataType type, BatchMemory memory, int rows, int nulls, long validity, long offsets, long data, FlatVector[] children) {
    this(type, memory, rows, nulls, validity, offsets, data, children, 0, 0, null);
  }

  private FlatVector(
    DataType type, BatchMemory memory, int rows, int nulls, long validity, long offsets, long data, FlatVector[] children, long codes, int codeBytes,
    UTF8String[] texts
  ) {
    super(type);
    this.memory = memory;
    this.rows = rows;
    this.nulls = nulls;
    this.validity = validity;
    this.offsets = offsets;
    this.data = data;
    this.children = children;
    this.codes = codes;
    this.codeBytes = codeBytes;
    this.texts = texts;
  }

  /** The vector of `rows` values, of which each is one of the values of this vector: its number, of one or two bytes, is at the address `codes`. */
  FlatVector coded(int rows, long codes, int codeBytes) {
    return new FlatVector(type, memory, rows, nulls, validity, offsets, data, children, codes, codeBytes, new UTF8String[this.rows]);
  }

  int rows() { return rows; }

  /** Declares that this is a column of a batch, whose memory is freed when all of its columns are closed. */
  FlatVector asColumn() {
    memory.addColumn();
    isOpenColumn = true;
    return this;
  }

  public void close() {
    if (isOpenColumn) memory.columnClosed();
    isOpenColumn = false;
  }

  public boolean hasNull() { return nulls > 0; }

  public int numNulls() {
    if (codes == 0 || nulls == 0) return nulls;
    int found = 0;
    for (int i = 0; i < rows; i++) if (isNullAt(i)) found++;
    return found;
  }

  public boolean isNullAt(int row) {
    if (CHECKED) check(row, 1);
    return nulls != 0 && (validity == 0 || !bit(validity, place(row)));
  }

  public boolean getBoolean(int row) {
    if (CHECKED) check(row, 1);
    return bit(data, row);
  }

  public byte getByte(int row) { return Platform.getByte(null, at(row, 1)); }
  public short getShort(int row) { return Platform.getShort(null, at(row, 2)); }
  public int getInt(int row) { return Platform.getInt(null, at(row, 4)); }
  public long getLong(int row) { return Platform.getLong(null, at(row, 8)); }
  public float getFloat(int row) { return Platform.getFloat(null, at(row, 4)); }
  public double getDouble(int row) { return Platform.getDouble(null, at(row, 8)); }

  public byte[] getBytes(int row, int count) {
    byte[] out = new byte[count];
    copy(row, count, 1, out, Platform.BYTE_ARRAY_OFFSET);
    return out;
  }

  public short[] getShorts(int row, int count) {
    short[] out = new short[count];
    copy(row, count, 2, out, Platform.SHORT_ARRAY_OFFSET);
    return out;
  }

  public int[] getInts(int row, int count) {
    int[] out = new int[count];
    copy(row, count, 4, out, Platform.INT_ARRAY_OFFSET);
    return out;
  }

  public long[] getLongs(int row, int count) {
    long[] out = new long[count];
    copy(row, count, 8, out, Platform.LONG_ARRAY_OFFSET);
    return out;
  }

  public float[] getFloats(int row, int count) {
    float[] out = new float[count];
    copy(row, count, 4, out, Platform.FLOAT_ARRAY_OFFSET);
    return out;
  }

  public double[] getDoubles(int row, int count) {
    double[] out = new double[count];
    copy(row, count, 8, out, Platform.DOUBLE_ARRAY_OFFSET);
    return out;
  }

  /** Arrow's decimals are integers of 16 bytes, the lower 8 first. An integer with more digits than the type has is an error. */
  public Decimal getDecimal(int row, int precision, int scale) {
    if (isNullAt(row)) return null;
    long at = at(place(row), 16), low = Platform.getLong(null, at), high = Platform.getLong(null, at + 8);
    if (high == low >> 63) return Decimal.apply(low, precision, scale);
    byte[] bigEndian = new byte[16];
    Platform.putLong(bigEndian, Platform.BYTE_ARRAY_OFFSET, Long.reverseBytes(high));
    Platform.putLong(bigEndian, Platform.BYTE_ARRAY_OFFSET + 8, Long.reverseBytes(low));
    return Decimal.apply(new BigDecimal(new BigInteger(bigEndian), scale), precision, scale);
  }

  public UTF8String getUTF8String(int row) {
    if (isNullAt(row)) return null;
    if (codes == 0) return text(row);
    int place = place(row);
    UTF8String known = texts[place];
    if (known == null) texts[place] = known = text(place);
    return known;
  }

  private UTF8String text(int place) {
    int start = start(place);
    return UTF8String.fromAddress(null, data + start, start(place + 1) - start);
  }

  public byte[] getBinary(int row) {
    if (isNullAt(row)) return null;
    int place = place(row), start = start(place);
    byte[] out = new byte[start(place + 1) - start];
    Platform.copyMemory(null, data + start, out, Platform.BYTE_ARRAY_OFFSET, out.length);
    return out;
  }

  public ColumnarArray getArray(int row) {
    if (isNullAt(row)) return null;
    int start = start(row);
    return new ColumnarArray(children[0], start, start(row + 1) - start);
  }

  public ColumnarMap getMap(int row) {
    if (isNullAt(row)) return null;
    int start = start(row);
    return new ColumnarMap(children[0], children[1], start, start(row + 1) - start);
  }

  public ColumnVector getChild(int ordinal) { return children[ordinal]; }

  /** Where a text, bytes or a decimal are among the values. */
  private int place(int row) {
    if (codes == 0) return row;
    return codeBytes == 1 ? Platform.getByte(null, codes + row) & 0xff : Platform.getShort(null, codes + 2L * row) & 0xffff;
  }

  private long at(int row, int width) {
    if (CHECKED && codes == 0) check(row, 1);
    return data + (long) row * width;
  }

  private void copy(int row, int count, int width, Object array, long offset) {
    if (CHECKED) check(row, count);
    Platform.copyMemory(null, data + (long) row * width, array, offset, (long) count * width);
  }

  /** The start of a string or list in its data, which is the end of the one before. */
  private int start(int row) { return Platform.getInt(null, offsets + (long) row * 4); }

  private static boolean bit(long bits, int row) { return (Platform.getByte(null, bits + (row >> 3)) >> (row & 7) & 1) != 0; }

  private void check(int row, int count) {
    if (memory.isFreed()) throw new IllegalStateException("use after free: a value is read from a batch whose memory is freed");
    if (row < 0 || count < 0 || row > rows - count) {
      throw new IndexOutOfBoundsException("invalid row " + row + " with " + count + " values in a column of " + rows + " rows");
    }
  }
}
