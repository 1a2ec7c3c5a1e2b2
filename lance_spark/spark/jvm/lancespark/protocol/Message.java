package lancespark.protocol;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** A message of Python, whose fields are read in their order. */
public final class Message {
  static final byte[] MAGIC = { 'L', 'N', 'C' };
  static final int VERSION_AT = 3, KIND_AT = 4, HEAD = 5;
  private final byte[] frame;
  private int at = HEAD;

  private Message(byte[] frame) { this.frame = frame; }

  /** The header of a pickled object if it is of this kind; null for other pickles. */
  public static Message header(byte[] pickle, int kind) { return of(PickleReader.header(pickle), kind); }

  /** The message that is the update of an accumulator if it is of this kind; null for other updates. */
  public static Message update(byte[] pickle, int kind) { return of(PickleReader.update(pickle), kind); }

  private static Message of(byte[] frame, int kind) {
    if (frame == null || frame.length < HEAD || !Arrays.equals(Arrays.copyOf(frame, MAGIC.length), MAGIC)) return null;
    Protocol.check(frame[VERSION_AT] & 0xff);
    return (frame[KIND_AT] & 0xff) == kind ? new Message(frame) : null;
  }

  public long integer() {
    need(8);
    at += 8;
    return number(8);
  }

  /** Text, or that of JSON. */
  public String text() { return new String(bytes(), StandardCharsets.UTF_8); }

  public byte[] bytes() {
    need(4);
    at += 4;
    long size = number(4);
    need(size);
    at += (int) size;
    return Arrays.copyOfRange(frame, at - (int) size, at);
  }

  /** The number in the last bytes before this place. */
  private long number(int bytes) {
    long value = 0;
    for (int i = 1; i <= bytes; i++) value = value << 8 | frame[at - i] & 0xff;
    return value;
  }

  private void need(long bytes) {
    if (bytes > frame.length - at) throw new IllegalStateException("a message of Python ends before its fields do");
  }
}
