package lancespark.statements;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.*;
import lancespark.protocol.Json;
import lancespark.protocol.Names;

/**
 * The text of a statement, divided into tokens as far as they are asked for. The first word decides about most statements, so that others cost
 * next to nothing.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
class StatementText {
  private static final String[][] SENTENCES = new String[Sentences.ALL.length][];
  private static final Set FIRST = new HashSet();

  static {
    for (int i = 0; i < SENTENCES.length; i++) {
      SENTENCES[i] = Sentences.ALL[i].split(" ");
      FIRST.addAll(Arrays.asList(SENTENCES[i][0].split("\\|")));
    }
  }

  private static final List ROW_CHANGES = Arrays.asList(new String[] { "DELETE", "UPDATE", "MERGE" });
  private static final String PARAMETERS = "?:$";
  private static final int NONE = -1;
  private final String text;
  private final List tokens = new ArrayList();
  private int end = 0;
  /** The words before the name of the table, the parts of the name, and the number of the first token after it. */
  final List head = new ArrayList(), name = new ArrayList();
  /** The parts of the name of the table that a statement makes from this one; none in most statements. */
  final List made = new ArrayList();
  private int rest = 0, start = 0;
  /** True if the table is a path in quotes, which may be one of another format. */
  boolean isPath = false;
  /** True if the name is that of something that is no lance table, so that the statement is refused. */
  boolean isNoTable = false;
  /** True if the name is that of a view, of the namespace of views or of a table that was dropped, or has no parts: the current namespace. */
  boolean isOfCatalog = false;
  /** True for BEGIN TRANSACTION, COMMIT and ROLLBACK, whose name is that of a catalog, or has no parts. */
  boolean isOfTransaction = false;
  /** True for a statement about a materialized view. */
  boolean isOfView = false;
  /** The name of an index that comes before the table; empty in most statements. */
  private String index = "";

  private StatementText(String text) { this.text = text; }

  /** The statement; null for one of Spark, or of others. */
  static StatementText of(String text) {
    StatementText statement = new StatementText(text);
    Token first = statement.token(0);
    if (first == null || !first.isWord() || !FIRST.contains(first.upper())) return null;
    for (int i = 0; i < SENTENCES.length; i++) if (statement.isLike(SENTENCES[i])) return statement.isComplete() ? statement : null;
    return null;
  }

  /** True if the statement begins as a sentence says. Then its names are known. */
  private boolean isLike(String[] sentence) {
    made.clear();
    index = "";
    isPath = false;
    isNoTable = false;
    isOfCatalog = false;
    isOfTransaction = false;
    isOfView = false;
    int at = 0;
    for (int i = 0; i < sentence.length; i++) {
      String part = sentence[i];
      isNoTable = isNoTable || part.equals("<n>");
      isOfView = isOfView || part.equals("<m>");
      isOfCatalog = isOfCatalog || part.equals("<v>") || part.equals("<none>");
      if (part.equals("<none>")) at = afterNothing(at);
      else if (part.equals("<t>") || part.equals("<n>") || part.equals("<v>") || part.equals("<m>") || part.equals("<path>")) at = afterTable(at, part.equals("<path>"));
      else if (part.equals("<x>")) at = afterName(at, made);
      else if (part.equals("<c>")) at = afterCatalog(at);
      else if (part.equals("<i>")) at = afterIndex(at);
      else if (part.equals("..")) at = Math.max(at, count() - (sentence.length - i - 1));
      else if (part.equals("?")) at = token(at) == null ? NONE : at + 1;
      else at = Arrays.asList(part.split("\\|")).contains(word(at)) ? at + 1 : NONE;
      if (at == NONE) return false;
    }
    return true;
  }

  private int afterTable(int at, boolean mayBePath) {
    afterNothing(at);
    rest = afterName(at, name);
    if (rest == NONE && mayBePath) rest = afterPath(at);
    return rest;
  }

  private int afterCatalog(int at) {
    afterNothing(at);
    isOfTransaction = true;
    rest = word(at).equals("IN") ? afterName(at + 1, name) : at;
    return rest != NONE && token(rest) == null ? rest : NONE;
  }

  /** Reads the words before a name, or before what comes instead of one. */
  private int afterNothing(int at) {
    head.clear();
    name.clear();
    for (int i = 0; i < at; i++) head.add(token(i).upper());
    start = at;
    rest = at;
    return at;
  }

  /** Reads a name into its parts. */
  private int afterName(int at, List parts) {
    parts.clear();
    while (token(at) != null && token(at).isName()) {
      parts.add(token(at++).value);
      if (!word(at).equals(".")) return at;
      at++;
    }
    return NONE;
  }

  private int afterIndex(int at) {
    if (token(at) == null || !token(at).isName()) return NONE;
    index = token(at).value;
    return at + 1;
  }

  /** Reads the path of the table, in quotes as in statements of Delta Lake. */
  private int afterPath(int at) {
    Token path = token(at);
    if (path == null || !path.kind.equals(Token.TEXT) || path.value.indexOf('/') < 0) return NONE;
    isPath = true;
    name.add(Names.FORMAT);
    name.add(path.value);
    return at + 1;
  }

  /** True for DELETE, UPDATE and MERGE, which Spark knows. */
  boolean changesRows() { return ROW_CHANGES.contains(word(0)); }

  /** The number of all tokens. */
  private int count() {
    while (token(tokens.size()) != null) {}
    return tokens.size();
  }

  private String word(int i) {
    Token token = token(i);
    return token == null || !token.isWord() && !token.kind.equals(Token.SYMBOL) ? "" : token.upper();
  }

  /** False for a text whose tokens are not all known, and for one with parameters, which Spark would not fill in. */
  private boolean isComplete() {
    boolean isHandedOn = word(0).equals("REPLACE") || isOfCatalog || isOfView;
    for (int i = rest; token(i) != null; i++) {
      Token token = token(i);
      if (!isHandedOn && token.kind.equals(Token.SYMBOL) && PARAMETERS.indexOf(token.value) >= 0) return false;
    }
    return end == text.length();
  }

  /** The text after the name and these words; null if other words follow. */
  String after(String words) {
    int at = rest;
    for (String word : words.split(" ")) if (!word.isEmpty() && !word(at++).equals(word)) return null;
    if (at == count()) return "";
    return text.substring(token(at).start, token(count() - 1).end);
  }

  /** The name as it stands in the statement. */
  String named() { return text.substring(token(start).start, token(rest - 1).end); }

  /** The statement, for lance_spark.spark.catalog.statements: words before the name of the table, and tokens after it. */
  ObjectNode json() {
    ObjectNode json = Json.object().put("text", text).put("name", start == rest ? "" : named());
    json.set("head", Json.names((String[]) head.toArray(new String[head.size()])));
    if (!index.isEmpty()) json.put("index", index);
    ArrayNode all = json.putArray("tokens");
    for (int i = rest; token(i) != null; i++) {
      Token token = token(i);
      all.add(Json.array().add(token.kind).add(token.value).add(token.start).add(token.end));
    }
    return json;
  }

  /** The token of a number; null after the last one. */
  private Token token(int i) {
    while (tokens.size() <= i) {
      Token next = next();
      if (next == null) return null;
      tokens.add(next);
    }
    return (Token) tokens.get(i);
  }

  /** Reads a token. Semicolons at the end are none. */
  private Token next() {
    int start = afterSpace(end);
    if (start < 0) return null;
    while (start < text.length() && text.charAt(start) == ';' && afterSemicolons(start) == text.length()) start = text.length();
    if (start == text.length()) {
      end = start;
      return null;
    }
    char first = text.charAt(start);
    if (first == '\'' || first == '"' || first == '`') return quoted(start, first);
    int stop = start;
    while (stop < text.length() && isOfWord(stop, start)) stop++;
    if (stop > start) return read(new Token(Token.WORD, text.substring(start, stop), start, stop));
    return read(new Token(Token.SYMBOL, String.valueOf(first), start, start + 1));
  }

  private Token read(Token token) {
    end = token.end;
    return token;
  }

  /** A number has a point between digits. */
  private boolean isOfWord(int i, int start) {
    char c = text.charAt(i);
    if (Character.isLetterOrDigit(c) || c == '_') return true;
    boolean isNumber = i > start && Character.isDigit(text.charAt(start)) && text.lastIndexOf('.', i - 1) < start;
    return c == '.' && isNumber && i + 1 < text.length() && Character.isDigit(text.charAt(i + 1));
  }

  private Token quoted(int start, char quote) {
    StringBuilder value = new StringBuilder();
    for (int i = start + 1; i < text.length(); i++) {
      char c = text.charAt(i);
      boolean isDoubled = c == quote && i + 1 < text.length() && text.charAt(i + 1) == quote;
      if (isDoubled || c == '\\' && quote != '`' && i + 1 < text.length()) value.append(text.charAt(++i));
      else if (c == quote) return read(new Token(quote == '`' ? Token.NAME : Token.TEXT, value.toString(), start, i + 1));
      else value.append(c);
    }
    return null;
  }

  private int afterSemicolons(int i) {
    while (i >= 0 && i < text.length() && text.charAt(i) == ';') i = afterSpace(i + 1);
    return i;
  }

  /** The position after space and comments; -1 if a comment does not end. */
  private int afterSpace(int i) {
    while (i < text.length()) {
      if (Character.isWhitespace(text.charAt(i))) i++;
      else if (text.startsWith("--", i)) i = text.indexOf('\n', i) < 0 ? text.length() : text.indexOf('\n', i);
      else if (text.startsWith("/*", i)) {
        int close = text.indexOf("*/", i + 2);
        if (close < 0) return -1;
        i = close + 2;
      } else return i;
    }
    return i;
  }
}
