package lancespark.protocol;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;

/** Writing and reading of pickles in Java. */
public class Pickle {
  /** The mark before five little-endian signed 64-bit integers (LancePartition in lance_spark.spark.read.reader). */
  private static final byte[] SIZE_MARK = Marks.mark("LanceSize:");
  /** The mark before two such integers and text (LanceDataSource in lance_spark.spark.source). */
  public static final byte[] VERSION_MARK = Marks.mark("LanceVersion:");
  public static final byte[] PARTITIONED_MARK = Marks.mark("LancePartitioned:");
  public static final byte[] LOG_MARK = Marks.mark("LanceLog:");

  /** The pickle of `lance_spark.spark.write.commit_again.again(writer)`, in protocol 3. */
  public static byte[] again(byte[] writer) {
    try {
      ByteArrayOutputStream out = new ByteArrayOutputStream();
      out.write(new byte[] { (byte) 0x80, 3 });
      out.write("clance_spark.spark.write.commit_again\nagain\n".getBytes(StandardCharsets.US_ASCII));
      out.write('B');
      writeSized(out, writer);
      out.write(new byte[] { (byte) 0x85, 'R', '.' });
      return out.toByteArray();
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
  }

  /** The pickle of `lance_spark.spark.source.bind(source, request)`, in protocol 3. */
  public static byte[] bind(byte[] source, String request) throws Exception {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    out.write(new byte[] { (byte) 0x80, 3 });
    out.write("clance_spark.spark.source\nbind\n".getBytes(StandardCharsets.US_ASCII));
    out.write('B');
    writeSized(out, source);
    out.write('X');
    writeSized(out, request.getBytes(StandardCharsets.UTF_8));
    out.write(new byte[] { (byte) 0x86, 'R', '.' });
    return out.toByteArray();
  }

  private static void writeSized(ByteArrayOutputStream out, byte[] bytes) throws Exception {
    for (int shift = 0; shift < 32; shift += 8) out.write(bytes.length >> shift);
    out.write(bytes);
  }

  /**
   * Rows and bytes of a pickled partition; the numbers of tables of a partitioned namespace: those to be read, and all; and the number of fragments
   * that the scan skips; or null. The first mark is the partition's own, because it precedes all user data.
   */
  public static long[] size(byte[] pickle) { return Marks.integers(pickle, SIZE_MARK, 5); }

  /** The names of the indexes that planning used, and the rows that they leave; "" if there are none. They follow the numbers of `size`. */
  public static String indexes(byte[] pickle) {
    int at = Marks.after(pickle, SIZE_MARK, 44);
    if (at < 0) return "";
    int size = (int) (Marks.integer(pickle, at + 36) >>> 32);
    return new String(pickle, at + 44, Math.min(size, pickle.length - at - 44), StandardCharsets.UTF_8);
  }
}
