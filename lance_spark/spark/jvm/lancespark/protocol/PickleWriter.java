package lancespark.protocol;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;

/** Writes pickles, in protocol 4. */
public final class PickleWriter {
  private static final int TUPLE2 = 0x86, REDUCE = 'R', STOP = '.', VERSION = 4;
  private final ByteArrayOutputStream out = new ByteArrayOutputStream();

  private PickleWriter() {}

  /** That of a call of lance_spark.spark.protocol.unpacked. */
  static byte[] call(byte[] frame, byte[] body) {
    PickleWriter pickle = new PickleWriter();
    pickle.name(PickleReader.MODULE, PickleReader.FUNCTION);
    pickle.bytes(frame);
    pickle.bytes(body);
    pickle.out.write(TUPLE2);
    pickle.out.write(REDUCE);
    pickle.out.write(STOP);
    return pickle.out.toByteArray();
  }

  /** That of a class. */
  public static byte[] named(String module, String name) {
    PickleWriter pickle = new PickleWriter();
    pickle.name(module, name);
    pickle.out.write(STOP);
    return pickle.out.toByteArray();
  }

  private void name(String module, String name) {
    out.write(PickleReader.PROTO);
    out.write(VERSION);
    text(module);
    text(name);
    out.write(PickleReader.STACK_GLOBAL);
  }

  private void text(String text) {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    out.write(PickleReader.SHORT_BINUNICODE);
    out.write(bytes.length);
    out.write(bytes, 0, bytes.length);
  }

  private void bytes(byte[] bytes) {
    out.write(PickleReader.BINBYTES);
    for (int shift = 0; shift < 32; shift += 8) out.write(bytes.length >> shift);
    out.write(bytes, 0, bytes.length);
  }
}
