package lancespark.statements;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import lancespark.protocol.Json;

/** Reads statements, each in base64, and says what Python gets of them; "null" for those of others. The Java half of tests/spark/test_java.py. */
public final class StatementsMain {
  private StatementsMain() {}

  public static void main(String[] arguments) throws IOException {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      StatementText statement = StatementText.of(new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8));
      System.out.println(statement == null ? "null" : Json.text(statement.json()));
    }
  }
}
