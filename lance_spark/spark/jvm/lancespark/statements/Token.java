package lancespark.statements;

import java.util.*;

/** A part of a statement: a word or number, a name in backticks, a text in quotes, or another character. */
class Token {
  static final String WORD = "word", NAME = "name", TEXT = "text", SYMBOL = "symbol";
  final String kind, value;
  final int start, end;

  Token(String kind, String value, int start, int end) {
    this.kind = kind;
    this.value = value;
    this.start = start;
    this.end = end;
  }

  boolean isWord() { return kind.equals(WORD); }
  boolean isName() { return kind.equals(WORD) || kind.equals(NAME); }
  String upper() { return value.toUpperCase(Locale.ROOT); }
}
