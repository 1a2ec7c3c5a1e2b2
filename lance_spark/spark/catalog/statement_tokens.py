"""The tokens of a statement, which StatementText.java has found, read from left to right."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa

from lance_spark.errors import InvalidOptionError

NO_COLUMNS = pa.schema([])
_WORD, _NAME, _TEXT, _SYMBOL = "word", "name", "text", "symbol"


@dataclass(frozen=True)
class Token:
    """A word or number, a name without its backticks, a text without its quotes, or another character, and its place in the statement."""

    kind: str
    value: str
    start: int
    end: int


class Tokens:
    """The part of a statement after the name of the table, read from left to right."""

    def __init__(self, text: str, tokens: Sequence[Token], table: str = "", schema: Callable[[], pa.Schema] = lambda: NO_COLUMNS) -> None:
        self._text, self._tokens, self._at = text, tokens, 0
        self._schema = schema
        self.table = table
        """The name of the table, as it is in the statement."""

    @property
    def statement(self) -> str:
        """The whole statement."""
        return self._text

    def columns(self) -> list[str]:
        """The names of the columns of the table."""
        return list(self._schema().names)

    def types(self) -> dict[str, pa.DataType]:
        """The types of the columns of the table, by their names in small letters."""
        return {f.name.lower(): f.type for f in self._schema()}

    @property
    def is_done(self) -> bool:
        """True at the end of the statement."""
        return self._next() is None

    def _next(self, ahead: int = 0) -> Token | None:
        i = self._at + ahead
        return self._tokens[i] if i < len(self._tokens) else None

    def _is(self, words: str, ahead: int = 0) -> bool:
        for i, word in enumerate(words.split()):
            token = self._next(ahead + i)
            if token is None or token.kind not in (_WORD, _SYMBOL) or token.value.upper() != word:
                return False
        return True

    def take(self, words: str) -> bool:
        """Go over these words, if they come next."""
        found = self._is(words)
        self._at += len(words.split()) if found else 0
        return found

    def comes(self, words: str, after: int = 0) -> bool:
        """True if these words come after so many other tokens."""
        return self._is(words, after)

    def take_one_of(self, *words: str) -> str:
        """Go over the one of these words that comes next. Raises InvalidOptionError for others."""
        return next((word for word in words if self.take(word)), "") or self.expected(" or ".join(words))

    def need(self, words: str) -> None:
        """Go over these words. Raises InvalidOptionError for others."""
        if not self.take(words):
            self.expected(words)

    def expected(self, what: str) -> NoReturn:
        """Raise InvalidOptionError: the next token is something else."""
        token = self._next()
        found = "it ends" if token is None else f"there is {self._text[token.start : token.end]!r} at position {token.start + 1}"
        raise InvalidOptionError(f"the statement {self._text.strip()!r} is wrong: {what} is expected, but {found}")

    def end(self) -> None:
        """Raise InvalidOptionError unless this is the end of the statement."""
        if not self.is_done:
            self.expected("the end")

    def name(self) -> str:
        """A name."""
        token = self._next()
        if token is None or token.kind not in (_WORD, _NAME):
            self.expected("a name")
        self._at += 1
        return token.value

    def path(self) -> str:
        """The name of a column, with dots between those of nested fields; a name that needs it is in backticks."""
        names = [self._quoted()]
        while self.take("."):
            names.append(self._quoted())
        return ".".join(names)

    def _quoted(self) -> str:
        token = self._next()
        name = self.name()
        return f"`{name.replace('`', '``')}`" if token is not None and token.kind == _NAME and not name.isidentifier() else name

    def paths(self) -> list[str]:
        """Names of columns, with commas between them, and perhaps in parentheses."""
        in_parentheses = self.take("(")
        found = [self.path()]
        while self.take(","):
            found.append(self.path())
        if in_parentheses:
            self.need(")")
        return found

    def text(self) -> str:
        """A text in quotes."""
        token = self._next()
        if token is None or token.kind != _TEXT:
            self.expected("a text in quotes")
        self._at += 1
        return token.value

    def texts(self, word: str) -> dict[str, str]:
        """The texts in `WORD ('name' = 'value', ..)`."""
        if not self._is(word):
            self.expected(f"{word} or the end")
        return {name: value if isinstance(value, str) else json.dumps(value) for name, value in self.options(word, folded=False).items()}

    def list_of_texts(self) -> list[str]:
        """Texts in parentheses, with commas between."""
        self.need("(")
        found = [self.text()]
        while self.take(","):
            found.append(self.text())
        self.need(")")
        return found

    def in_parentheses(self) -> str:
        """The text in parentheses."""
        self.need("(")
        found = self.until(")")
        self.need(")")
        return found

    def query(self) -> tuple[str, str]:
        """The rest, which is a query, and its alias: `(query) [AS] alias`; without an alias, it is empty."""
        start = self._at
        if self._is("("):
            query = self.in_parentheses()
            self.take("AS")
            token = self._next()
            if token is not None and token.kind in (_WORD, _NAME) and self._next(1) is None:
                return query, self._quoted()
            self._at = start
        return self.until(), ""

    def count(self) -> int:
        """A whole number."""
        token = self._next()
        if token is None or token.kind != _WORD or not token.value.isdecimal():
            self.expected("a whole number")
        self._at += 1
        return int(token.value)

    def number(self) -> float:
        """A number of at least 0."""
        token = self._next()
        try:
            value = float("" if token is None or token.kind != _WORD else token.value)
        except ValueError:
            self.expected("a number")
        if not math.isfinite(value):
            self.expected("a number")
        self._at += 1
        return value

    def version(self) -> str:
        """The number of a version, or a tag in quotes."""
        token = self._next()
        if token is not None and token.kind == _TEXT:
            self._at += 1
            return token.value
        return str(self.count())

    def until(self, *words: str) -> str:
        """The text up to one of these words, or to the end."""
        start, depth = self._next(), 0
        first = self._at
        while (token := self._next()) is not None and (depth or not any(self._is(word) for word in words)):
            depth += (token.value == "(") - (token.value == ")") if token.kind == _SYMBOL else 0
            self._at += 1
        if start is None or first == self._at:
            self.expected("an expression")
        return self._text[start.start : self._tokens[self._at - 1].end]

    def options(self, word: str = "WITH", folded: bool = True) -> dict[str, Any]:
        """The options in `WITH (name = value, ..)`; none without the word. Names are `folded` to small letters."""
        found: dict[str, Any] = {}
        if not self.take(word):
            return found
        self.need("(")
        while not self.take(")"):
            if found:
                self.need(",")
            name = self._option().lower() if folded else self._option()
            if name in found:
                raise InvalidOptionError(f"the option {name!r} is given twice")
            self.need("=")
            found[name] = self._value()
        return found

    def _option(self) -> str:
        """The name of an option, perhaps in quotes."""
        token = self._next()
        if token is not None and token.kind == _TEXT:
            self._at += 1
            return token.value
        return self.name()

    def value_of(self, text: Any, kind: str) -> Any:
        """The value of an option that is written as text, where it is of another kind."""
        if kind == "string" or not isinstance(text, str):
            return text
        try:
            return json.loads(text.lower())
        except ValueError:
            return text

    def _value(self) -> Any:
        token = self._next()
        if token is not None and token.kind == _TEXT:
            self._at += 1
            return token.value
        text = self.until(",", ")")
        try:
            return json.loads(text.lower())
        except ValueError:
            return text
