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
class StatementText {
  private static final List FIRST = Arrays.asList(new String[] { "OPTIMIZE", "VACUUM", "RESTORE", "DESCRIBE", "DESC", "SHOW", "ALTER", "REPLACE", "ANALYZE", "CREATE",
    "DROP" });
  private static final List ABOUT = Arrays.asList(new String[] { "HISTORY", "DETAIL" });
  private static final List LISTED = Arrays.asList(new String[] { "INDEXES", "INDEX", "TAGS", "TAG", "BRANCHES", "BRANCH" });
  private static final List MADE = Arrays.asList(new String[] { "INDEX", "TAG", "BRANCH" });
  private static final List VERBS = Arrays.asList(new String[] { "CREATE", "REPLACE", "DROP", "REFRESH", "OPTIMIZE" });
  private static final String PARAMETERS = "?:$";
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
  /** The name of an index that comes before the table; empty in most statements. */
  private String index = "";

  private StatementText(String text) { this.text = text; }

  /** The statement; null for one of Spark, or of others. */
  static StatementText of(String text) {
    StatementText statement = new StatementText(text);
    Token first = statement.token(0);
    if (first == null || !first.isWord() || !FIRST.contains(first.upper())) return null;
    return statement.hasHead() && statement.isComplete() ? statement : null;
  }

  private boolean hasHead() {
    String first = word(0), second = word(1), third = word(2);
    if (first.equals("OPTIMIZE") || first.equals("VACUUM")) return hasName(1) || hasPath(1);
    if (first.equals("RESTORE")) return hasName(second.equals("TABLE") && !is(2, "TO") ? 2 : 1) && is(rest, "TO");
    if (first.startsWith("DESC")) return ABOUT.contains(second) && (hasName(2) || hasPath(2));
    if (first.equals("SHOW") && second.equals("PARTITIONS")) return hasName(2) || hasPath(2);
    if (first.equals("SHOW")) return LISTED.contains(second) && (third.equals("FROM") || third.equals("IN")) && hasName(3);
    if (first.equals("REPLACE")) return hasName(1) && is(rest, "WHERE");
    if (second.equals("INDEX") && (first.equals("CREATE") || first.equals("DROP"))) return isIndexOn();
    if (first.equals("CREATE")) return isClone();
    if (!second.equals("TABLE") || !hasName(2)) return false;
    if (first.equals("ANALYZE")) return is(rest, "COMPUTE");
    String verb = word(rest), object = word(rest + 1);
    if (object.equals("PARTITION") && is(rest + 2, "FIELD") || object.equals("IDENTIFIER") && is(rest + 2, "FIELDS")) return true;
    if (verb.equals("ALTER") || verb.equals("CHANGE")) return isEndOf("SET NOT NULL");
    if (verb.equals("WRITE") || object.equals("CONSTRAINT") && (verb.equals("ADD") || verb.equals("DROP"))) return true;
    if (object.equals("COLUMNS") && verb.equals("UPDATE")) return true;
    if (object.equals("COLUMNS") && verb.equals("ADD")) return is(rest + 3, ",") || is(rest + 3, "FROM");
    return VERBS.contains(verb) && (MADE.contains(object) || object.equals("OR")) || verb.equals("SET") && object.equals("UNENFORCED");
  }

  /** True for `CREATE | DROP INDEX i ON [TABLE] t`. */
  private boolean isIndexOn() {
    if (token(2) == null || !token(2).isName() || !is(3, "ON") || !hasName(is(4, "TABLE") ? 5 : 4)) return false;
    index = token(2).value;
    return true;
  }

  /** True for `CREATE [OR REPLACE] TABLE [IF NOT EXISTS] x [SHALLOW | DEEP] CLONE t`. */
  private boolean isClone() {
    int table = is(1, "OR") && is(2, "REPLACE") ? 3 : 1;
    if (!is(table, "TABLE")) return false;
    boolean isOptional = is(table + 1, "IF") && is(table + 2, "NOT") && is(table + 3, "EXISTS");
    if (!hasName(isOptional ? table + 4 : table + 1)) return false;
    int clone = is(rest, "SHALLOW") || is(rest, "DEEP") ? rest + 1 : rest;
    if (!is(clone, "CLONE")) return false;
    made.addAll(name);
    return hasName(clone + 1);
  }

  /** True if the text ends with these words, which Spark knows in other statements. */
  private boolean isEndOf(String words) {
    String[] all = words.split(" ");
    while (token(tokens.size()) != null) {}
    for (int i = 0; i < all.length; i++) if (!is(tokens.size() - all.length + i, all[i])) return false;
    return true;
  }

  /** Reads the name of the table from a token on. */
  private boolean hasName(int start) {
    head.clear();
    name.clear();
    for (int i = 0; i < start; i++) head.add(token(i).upper());
    this.start = start;
    rest = start;
    while (token(rest) != null && token(rest).isName()) {
      name.add(token(rest++).value);
      if (!is(rest, ".")) return true;
      rest++;
    }
    return false;
  }

  /** Reads the path of the table, in quotes as in statements of Delta Lake. */
  private boolean hasPath(int start) {
    Token path = token(start);
    if (path == null || !path.kind.equals(Token.TEXT) || path.value.indexOf('/') < 0) return false;
    isPath = true;
    name.add(Names.FORMAT);
    name.add(path.value);
    rest = start + 1;
    return true;
  }

  private boolean is(int i, String word) { return word(i).equals(word); }

  private String word(int i) {
    Token token = token(i);
    return token == null || !token.isWord() && !token.kind.equals(Token.SYMBOL) ? "" : token.upper();
  }

  /** False for a text whose tokens are not all known, and for one with parameters, which Spark would not fill in. */
  private boolean isComplete() {
    boolean isHandedOn = is(0, "REPLACE");
    for (int i = rest; token(i) != null; i++) {
      Token token = token(i);
      if (!isHandedOn && token.kind.equals(Token.SYMBOL) && PARAMETERS.indexOf(token.value) >= 0) return false;
    }
    return end == text.length();
  }

  /** The statement, for lance_spark.spark.catalog.statements: words before the name of the table, and tokens after it. */
  ObjectNode json() {
    ObjectNode json = Json.object().put("text", text).put("name", text.substring(token(start).start, token(rest - 1).end));
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
