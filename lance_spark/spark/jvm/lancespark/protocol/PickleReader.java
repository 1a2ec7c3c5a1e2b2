package lancespark.protocol;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Finds the frame of a message in a pickle: at its begin, without a search. Such a pickle calls lance_spark.spark.protocol.unpacked, or is the update of
 * an accumulator. Its protocol is 4 or 5.
 */
final class PickleReader {
  static final int PROTO = 0x80, STACK_GLOBAL = 0x93, SHORT_BINUNICODE = 0x8c, BINBYTES = 'B';
  static final String MODULE = "lance_spark.spark.protocol", FUNCTION = "unpacked";
  private static final int FRAME = 0x95, MEMOIZE = 0x94, SHORT_BINBYTES = 'C', BININT = 'J';
  private final byte[] pickle;
  private int at = 0;

  private PickleReader(byte[] pickle) { this.pickle = pickle; }

  /** The frame of an object with a header; null for other pickles. */
  static byte[] header(byte[] pickle) {
    PickleReader in = new PickleReader(pickle);
    boolean isOurs = in.begins() && in.isText(MODULE) && in.isText(FUNCTION) && in.is(STACK_GLOBAL);
    return isOurs ? in.bytes() : null;
  }

  /** The frame that is the update of an accumulator; null for other updates. */
  static byte[] update(byte[] pickle) {
    PickleReader in = new PickleReader(pickle);
    if (!in.begins() || !in.is(BININT)) return null;
    in.at += 4;
    return in.bytes();
  }

  private boolean begins() {
    boolean is = is(PROTO);
    at++;
    return is;
  }

  /** True if this is the next opcode, which is then behind. The pickler puts others between those of a call. */
  private boolean is(int opcode) {
    while (at < pickle.length && (code(at) == FRAME || code(at) == MEMOIZE)) at += code(at) == FRAME ? 9 : 1;
    if (at >= pickle.length || code(at) != opcode) return false;
    at++;
    return true;
  }

  private boolean isText(String expected) {
    byte[] text = is(SHORT_BINUNICODE) ? take(1) : null;
    return text != null && new String(text, StandardCharsets.UTF_8).equals(expected);
  }

  private byte[] bytes() { return is(SHORT_BINBYTES) ? take(1) : is(BINBYTES) ? take(4) : null; }

  /** The bytes after their size, which has so many bytes; null if the pickle ends before. */
  private byte[] take(int size) {
    if (at + size > pickle.length) return null;
    long count = 0;
    for (int i = size - 1; i >= 0; i--) count = count << 8 | code(at + i);
    int begin = at + size;
    if (count > pickle.length - begin) return null;
    at = begin + (int) count;
    return Arrays.copyOfRange(pickle, begin, at);
  }

  private int code(int position) { return pickle[position] & 0xff; }
}
