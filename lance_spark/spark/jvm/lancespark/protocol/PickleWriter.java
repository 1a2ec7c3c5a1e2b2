package lancespark.protocol;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;

/** Writes the pickle of a call of lance_spark.spark.protocol.unpacked, in protocol 4. */
final class PickleWriter {
  private static final int TUPLE2 = 0x86, REDUCE = 'R', STOP = '.', VERSION = 4;
  private final ByteArrayOutputStream out = new ByteArrayOutputStream();

  private PickleWriter() {}

  static byte[] call(byte[] frame, byte[] body) {
    PickleWriter pickle = new PickleWriter();
    pickle.out.write(PickleReader.PROTO);
    pickle.out.write(VERSION);
    pickle.text(PickleReader.MODULE);
    pickle.text(PickleReader.FUNCTION);
    pickle.out.write(PickleReader.STACK_GLOBAL);
    pickle.bytes(frame);
    pickle.bytes(body);
    pickle.out.write(TUPLE2);
    pickle.out.write(REDUCE);
    pickle.out.write(STOP);
    return pickle.out.toByteArray();
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
