package lancespark.protocol;

import java.nio.charset.StandardCharsets;

/** Numbers that Python packs behind a mark in a pickle. */
public final class Marks {
  private Marks() {}

  public static byte[] mark(String text) { return text.getBytes(StandardCharsets.US_ASCII); }

  /** The end of the first mark that at least this number of bytes follows; -1 if there is none. */
  public static int after(byte[] pickle, byte[] mark, int bytes) {
    for (int at = 0; at + mark.length + bytes <= pickle.length; at++) {
      int same = 0;
      while (same < mark.length && pickle[at + same] == mark[same]) same++;
      if (same == mark.length) return at + same;
    }
    return -1;
  }

  /** A little-endian signed 64-bit integer. */
  public static long integer(byte[] bytes, int at) {
    long value = 0;
    for (int i = 7; i >= 0; i--) value = value << 8 | bytes[at + i] & 0xff;
    return value;
  }

  /** The integers that follow the first mark; null if there is none. */
  public static long[] integers(byte[] pickle, byte[] mark, int count) {
    int at = after(pickle, mark, 8 * count);
    if (at < 0) return null;
    long[] values = new long[count];
    for (int i = 0; i < count; i++) values[i] = integer(pickle, at + 8 * i);
    return values;
  }
}
