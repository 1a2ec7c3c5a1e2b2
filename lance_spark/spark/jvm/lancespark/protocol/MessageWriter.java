package lancespark.protocol;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;

/** A message to Python. The fields are added in their order. */
public final class MessageWriter {
  private final ByteArrayOutputStream frame = new ByteArrayOutputStream();

  public MessageWriter(int kind) {
    frame.write(Message.MAGIC, 0, Message.MAGIC.length);
    frame.write(Protocol.VERSION);
    frame.write(kind);
  }

  public MessageWriter integer(long value) {
    for (int shift = 0; shift < 64; shift += 8) frame.write((int) (value >> shift));
    return this;
  }

  /** Text, or that of JSON. */
  public MessageWriter text(String text) { return bytes(text.getBytes(StandardCharsets.UTF_8)); }

  public MessageWriter bytes(byte[] bytes) {
    for (int shift = 0; shift < 32; shift += 8) frame.write(bytes.length >> shift);
    frame.write(bytes, 0, bytes.length);
    return this;
  }

  /** The pickle of an object with this header. */
  public byte[] pickle(byte[] body) { return PickleWriter.call(frame.toByteArray(), body); }
}
