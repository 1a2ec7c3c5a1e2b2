"""Parsing of a condition in Spark's dialect to a sqlglot tree, in which every name is a column, even if it is a keyword."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from sqlglot import TokenType, exp
from sqlglot.dialects import Spark
from sqlglot.errors import SqlglotError

from lance_spark.buffers.cache import Cache

_SPARK = Spark()
"""One dialect for all texts: making it takes a sixth of the time of parsing a short condition."""

_BINARY = frozenset(("AND", "OR", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "IS", "DIV", "ESCAPE", "FROM", "AS"))
_NEGATABLE = frozenset(("IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN"))
_CONSTANTS = frozenset(("NULL", "TRUE", "FALSE"))
_UNIT = re.compile("(year|quarter|month|week|day|hour|minute|second|millisecond|microsecond)s?", re.IGNORECASE)
_PLAIN = re.compile("[0-9a-z :.+-]+", re.IGNORECASE)
INTERVAL = "__interval"
"""The function that stands for INTERVAL in a tree; its argument is a text as for `times.interval_literal`."""
LIST = "__list"
"""The function that stands for a long list of integers in a tree; its argument `LIST` has their text. No user can write this argument."""
_LIST = re.compile(r"\bIN\s*\(\s*(-?[0-9]{1,18}(?:\s*,\s*-?[0-9]{1,18}){99,})\s*\)", re.IGNORECASE)
"""IN with at least 100 integers of at most 18 digits, which are 64-bit numbers. The parser takes 20 µs for each value."""
_TEXTS = re.compile(r"""['"`]|--|/\*|""" + LIST, re.IGNORECASE)
"""What begins a text, a name or a comment, in which something may look like a list."""
_NUMBER = re.compile(r"[\d.]+(e[+-]?\d+)?(L|S|Y|D|F|BD)", re.IGNORECASE)
# Without signs, which may belong to the following operand.
_AFTER_OPERAND = frozenset(
    (
        TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.L_BRACKET, TokenType.COMMA, TokenType.DOT, TokenType.EQ, TokenType.NEQ,
        TokenType.GT, TokenType.GTE, TokenType.LT, TokenType.LTE, TokenType.NULLSAFE_EQ, TokenType.STAR, TokenType.SLASH, TokenType.MOD,
        TokenType.AMP, TokenType.PIPE, TokenType.CARET, TokenType.DPIPE,
    )
)  # fmt: skip
_NO_OPERANDS = frozenset((TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.COMMA, TokenType.PLUS, TokenType.DASH, TokenType.TILDE,
                          TokenType.NOT, TokenType.DCOLON)) | (_AFTER_OPERAND - {TokenType.R_PAREN, TokenType.R_BRACKET})  # fmt: skip

_PREDICATES = (exp.In, exp.Between, exp.Is, exp.Like, exp.ILike, exp.RegexpLike, exp.Escape, exp.NullSafeNEQ)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
_LEVELS = (
    (exp.Or,), (exp.And,), (exp.Not,), _PREDICATES, _COMPARISONS, (exp.BitwiseOr,), (exp.BitwiseXor,), (exp.BitwiseAnd,),
    (exp.Add, exp.Sub, exp.DPipe), (exp.Mul, exp.Div, exp.Mod, exp.IntDiv), (exp.Neg,),
)  # fmt: skip
_LEVEL = {node: level for level, nodes in enumerate(_LEVELS) for node in nodes}
"""How strongly Spark's operators bind (`SqlBaseParser.g4`), from the weakest; those of one level are read from the left."""

_UNSUPPORTED = {
    "CASE": "CASE; use if(condition, value, other value)",
    "SELECT": "subqueries",
    **dict.fromkeys(("EXTRACT", "OVERLAY", "POSITION", "SUBSTRING", "SUBSTR", "TRIM"), "words between the arguments of functions"),
}
"""Syntax of Spark that the parser does not know, by its word, for messages."""


class _Tokenizer(Spark.Tokenizer):  # type: ignore[misc]
    """Spark's tokens, but no word is a keyword and none starts a command."""

    KEYWORDS = {word: kind for word, kind in Spark.Tokenizer.KEYWORDS.items() if not word[0].isalpha()}  # noqa: RUF012
    COMMANDS: set[TokenType] = set()  # noqa: RUF012


class _Parser(Spark.Parser):  # type: ignore[misc]
    """Parses every function as a call with a name and arguments, except for casts."""

    FUNCTIONS: dict[str, Any] = {}  # noqa: RUF012
    FUNCTION_PARSERS = {name: Spark.Parser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST")}  # noqa: RUF012
    NO_PAREN_FUNCTION_PARSERS: dict[str, Any] = {}  # noqa: RUF012


class AmbiguousPrecedenceError(ValueError):
    """Operators without parentheses, which Spark and the parser read differently."""


_KNOWN = Cache(8 << 20)
_BYTES_PER_CHARACTER = 256
"""About the memory of a tree."""


def condition_tree(sql: str) -> Any:
    """Parse the expression `sql`, whose tree stays in memory.

    Raises SyntaxError with the reason for an invalid text, and AmbiguousPrecedenceError.
    """
    return _KNOWN.get(sql, lambda: _parsed(sql), lambda _: _BYTES_PER_CHARACTER * len(sql))


def _parsed(sql: str) -> Any:
    sql, lists = _without_lists(sql)
    try:
        text = _plain(sql)
        trees = _Parser(dialect=_SPARK).parse_into(exp.Condition, Spark.Tokenizer(dialect=_SPARK).tokenize(text), text)
    except SqlglotError as e:
        if errors := getattr(e, "errors", None):
            found = errors[0]
            raise SyntaxError(f"{_described(found['description'])} at {found['highlight']!r}{_hint(sql)}") from e
        raise SyntaxError("a string, a name or a comment is not closed") from e
    if len(trees) > 1:
        raise SyntaxError("a semicolon ends it")
    (tree,) = trees
    if tree is None:
        raise SyntaxError("it is empty")
    _check_precedence(tree)
    for call in tree.find_all(exp.Anonymous) if lists else ():
        if call.name == LIST:
            call.set(LIST, lists[int(call.expressions[0].name)])
    return tree


def _without_lists(sql: str) -> tuple[str, list[str]]:
    """The condition with each long list of integers as a call with its number, and the lists."""
    lists: list[str] = []

    def call(found: re.Match[str]) -> str:
        lists.append(found[1])
        return f"IN ({LIST}({len(lists) - 1}))"

    return (sql if _TEXTS.search(sql) else _LIST.sub(call, sql)), lists


def _described(reason: str) -> str:
    """The parser's reason in words that do not speak of the parser."""
    if missing := re.match(r"Required keyword: '(\w+)' missing", reason):
        return "an operand is missing" if missing[1] in ("this", "expression") else f"{missing[1]} is missing"
    reason = reason.split(" for <")[0].rstrip(".")
    return "unexpected text" if reason.startswith("Invalid expression") else f"{reason[:1].lower()}{reason[1:]}"


def _check_operators(tokens: Sequence[Any]) -> None:
    """Raise SyntaxError for `> >` and `< <`, which sqlglot reads as a shift of bits."""
    for a, b in itertools.pairwise(tokens):
        is_pair = a.token_type == b.token_type and a.token_type in (TokenType.GT, TokenType.LT)
        if is_pair and b.start > a.end + 1:
            raise SyntaxError(f"an operand is missing between {a.text!r} and {b.text!r}")


def _hint(sql: str) -> str:
    words = (token.text.upper() for token in _Tokenizer(dialect=_SPARK).tokenize(sql) if token.token_type == TokenType.VAR)
    return next((f"; filters do not support {_UNSUPPORTED[word]}" for word in words if word in _UNSUPPORTED), "")


def _check_precedence(tree: Any) -> None:
    """Raise AmbiguousPrecedenceError where operators bind otherwise in Spark: sqlglot reads `a = b < c` as `a = (b < c)`."""
    for node in tree.walk():
        level = _LEVEL.get(type(node))
        if level is None or isinstance(node, exp.And | exp.Or):
            continue
        left, right = _level(node.this), _level(node.args.get("expression"))
        if isinstance(node, exp.Escape | exp.Not | exp.Neg):
            fits = left >= level
        elif isinstance(node, _PREDICATES):
            fits = left > level
        else:
            fits = left >= level and right > level
        if not fits:
            raise AmbiguousPrecedenceError(f"write parentheses around the operands of {node.key.upper()}, which Spark may read differently")


def _level(operand: Any) -> int:
    return _LEVEL.get(type(operand), len(_LEVELS))


def _plain(sql: str) -> str:
    """The condition `sql` with its column names in backticks, and each string as one token.

    Spark 4 reads two quotes inside a string as one; sqlglot reads two strings, so the quotes are escaped.
    """
    sql = _with_whole_intervals(sql)
    tokens = _Tokenizer(dialect=_SPARK).tokenize(sql)
    _check_operators(tokens)
    edits = {at: (0, "`") for token in _names(tokens) for at in (token.start, token.end + 1)}
    for a, b in itertools.pairwise(tokens):
        if a.token_type == b.token_type == TokenType.STRING and b.start == a.end + 1:
            edits[a.end] = (1, "\\")
    out, done = [], 0
    for at, (removed, text) in sorted(edits.items()):
        out += [sql[done:at], text]
        done = at + removed
    return "".join([*out, sql[done:]])


def _with_whole_intervals(sql: str) -> str:
    """The condition with each interval as a call with one text. The parser would drop parts of it. A column may be called interval, too."""
    if "INTERVAL" not in sql.upper():
        return sql
    tokens, out, done = _Tokenizer(dialect=_SPARK).tokenize(sql), [], 0
    for at, token in enumerate(tokens):
        if token.token_type == TokenType.VAR and token.text.upper() == "INTERVAL" and token.start >= done:
            text, end = _interval(tokens, at + 1)
            if text:
                out += [sql[done : token.start], f"{INTERVAL}('{text}')"]
                done = tokens[end - 1].end + 1
    return "".join([*out, sql[done:]])


def _interval(tokens: Sequence[Any], at: int) -> tuple[str, int]:
    """The numbers and units of an interval from token `at` on, and the token after them. No text if there is no interval."""
    parts: list[str] = []
    while True:
        sign = ""
        if not parts and at < len(tokens) and tokens[at].token_type in (TokenType.DASH, TokenType.PLUS):
            sign = tokens[at].text
        number, unit = at + len(sign), at + len(sign) + 1
        if number >= len(tokens) or tokens[number].token_type not in (TokenType.NUMBER, TokenType.STRING):
            break
        is_word = unit < len(tokens) and tokens[unit].token_type == TokenType.VAR
        if not is_word or not _UNIT.fullmatch(tokens[unit].text):
            if not parts and tokens[number].token_type == TokenType.STRING and _PLAIN.fullmatch(tokens[number].text):
                return sign + tokens[number].text, number + 1
            break
        if not _PLAIN.fullmatch(tokens[number].text):
            break
        parts.append(f"{sign}{tokens[number].text} {tokens[unit].text}")
        at = unit + 1
        if at + 1 < len(tokens) and tokens[at].text.upper() == "TO":
            parts.append(f"TO {tokens[at + 1].text}")
            at += 2
    return " ".join(parts), at


def _names(tokens: Sequence[Any]) -> Iterator[Any]:
    """The words that name columns or fields: those where an operand is expected, and those after a dot."""
    follows = _can_follow_an_operand(tokens)
    operand, test, parens, skipped = True, False, [False], 0
    for at, token in enumerate(tokens):
        kind, word = token.token_type, token.text.upper()
        following = tokens[at + 1].token_type if at + 1 < len(tokens) else None
        if kind == TokenType.L_PAREN:
            parens.append(at > 0 and tokens[at - 1].text.upper() in ("CAST", "TRY_CAST"))
        elif kind == TokenType.R_PAREN and len(parens) > 1:
            parens.pop()
            skipped = 0 if len(parens) < skipped else skipped
        if kind != TokenType.VAR:
            operand, test = kind in _NO_OPERANDS, False
        elif skipped:
            continue  # the type of a cast
        elif at and tokens[at - 1].token_type == TokenType.DOT:
            yield token
            operand = False
        elif test:
            # IS [NOT] NULL | TRUE | FALSE | DISTINCT FROM
            test, operand = word in ("NOT", "DISTINCT"), word == "FROM"
        elif not operand:
            test, operand = word == "IS", word != "NOT"
            skipped = len(parens) if word == "AS" and parens[-1] else 0
        elif following in (TokenType.L_PAREN, TokenType.STRING) or (word == "NOT" and not follows[at + 1]):
            continue  # a function, the type of a literal, a negation
        else:
            operand = False
            if word not in _CONSTANTS and not _NUMBER.fullmatch(word):
                yield token


def _can_follow_an_operand(tokens: Sequence[Any]) -> list[bool]:
    """For each token, and for the end: whether an operand may be complete before it, given what comes after it."""
    out = [True] * (len(tokens) + 1)
    for at in range(len(tokens) - 1, -1, -1):
        token, word = tokens[at], tokens[at].text.upper()
        if token.token_type != TokenType.VAR:
            out[at] = token.token_type in _AFTER_OPERAND
        elif word == "NOT":
            following = tokens[at + 1].text.upper() if at + 1 < len(tokens) else ""
            out[at] = following in _NEGATABLE and out[at + 1]
        else:
            out[at] = word in _BINARY and not out[at + 1]
    return out
