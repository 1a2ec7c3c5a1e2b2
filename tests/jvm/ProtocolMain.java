package lancespark.protocol;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/** The Java half of tests/spark/test_protocol.py. Its argument says what it does; each line that it reads is bytes in base64, and has an answer. */
public final class ProtocolMain {
  private ProtocolMain() {}

  public static void main(String[] arguments) throws IOException, IllegalAccessException {
    if (arguments[0].equals("list")) list();
    if (arguments[0].equals("names")) for (Field name : Names.class.getFields()) System.out.println(name.getName() + " = " + name.get(null));
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      System.out.println(answer(arguments[0], Base64.getDecoder().decode(line)));
    }
  }

  /** The number of the protocol, and the messages. */
  private static void list() {
    System.out.println(Protocol.VERSION);
    for (int i = 0; i < Protocol.MESSAGES.length; i++) System.out.println((i + 1) + " " + Protocol.MESSAGES[i]);
  }

  private static String answer(String what, byte[] pickle) {
    try {
      if (what.equals("write")) return written(pickle);
      if (what.equals("json")) return Json.text(Json.parse(new String(pickle, StandardCharsets.UTF_8)));
      if (what.equals("named")) return Base64.getEncoder().encodeToString(PickleWriter.named(Names.CATALOG_MODULE, Names.CATALOG_CLASS));
      byte[] frame = what.equals("update") ? PickleReader.update(pickle) : PickleReader.header(pickle);
      if (frame == null) return "not ours";
      int kind = frame[Message.KIND_AT];
      Message message = what.equals("update") ? Message.update(pickle, kind) : Message.header(pickle, kind);
      return message == null ? "not ours" : copied(message, kind).replaceAll("\\s", "");
    } catch (RuntimeException e) {
      return e.getClass().getSimpleName() + " " + e.getMessage();
    }
  }

  /** The fields of a message, written again with a body. */
  private static String copied(Message message, int kind) {
    MessageWriter out = new MessageWriter(kind);
    String layout = Protocol.MESSAGES[kind - 1].split(" ", -1)[1];
    for (int i = 0; i < layout.length(); i++) {
      char type = layout.charAt(i);
      if (type == 'q') out.integer(message.integer());
      else if (type == 'b') out.bytes(message.bytes());
      else out.text(message.text());
    }
    return Base64.getEncoder().encodeToString(out.pickle(new byte[] { 1, 2, 3 }));
  }

  /** The pickle of a source for a scan. */
  private static String written(byte[] body) {
    return Base64.getEncoder().encodeToString(new MessageWriter(Protocol.BOUND).text("{\"limit\": 3}").pickle(body));
  }
}
