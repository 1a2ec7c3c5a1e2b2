"""The statements of lance tables that Spark does not know, such as OPTIMIZE: each is a call of a procedure.

StatementText.java divides a statement into tokens, and LanceStatement.java finds out that its table is a lance table.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from lance_spark.display.words import nearest as did_you_mean
from lance_spark.errors import InvalidOptionError
from lance_spark.spark.catalog.procedures import PROCEDURES
from lance_spark.spark.catalog_settings import Catalog

_LOG = logging.getLogger("lance_spark")
_WORD, _NAME, _TEXT, _SYMBOL = "word", "name", "text", "symbol"
_MICROS_PER_HOUR = 3_600_000_000
Column = Mapping[str, str]
"""A column of the rows that a statement returns: its `name`, and the `column` of the procedure's rows, or a constant `text`."""


@dataclass(frozen=True)
class Call:
    """What a statement means: the arguments of a procedure, and the columns that the statement returns (None: those of the procedure).

    `times` are arguments whose values are expressions of Spark. `branch` is another one than that of the table, unless it is None.
    """

    procedure: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    columns: Sequence[Column] | None = None
    times: Mapping[str, str] = field(default_factory=dict)
    branch: str | None = None


def statement(
    catalog: Catalog, text: str, head: Sequence[str], tokens: Sequence[Sequence[Any]], place: Mapping[str, Any]
) -> dict[str, Any]:
    """The call that a statement means. `head` are the words before the name of the table, `tokens` those after it.

    Raises InvalidOptionError for a statement that is wrong.
    """
    rest = _Tokens(text, [_Token(*token) for token in tokens])
    call = _STATEMENTS[_kind(head)](rest)
    rest.end()
    columns = call.columns or [{"name": name, "column": name} for name in _names(PROCEDURES[call.procedure].columns)]
    at = place if call.branch is None else _on_branch(place, call.branch)
    return {"procedure": call.procedure, "arguments": call.arguments, "columns": columns, "times": call.times, "place": at}


def _kind(head: Sequence[str]) -> str:
    first, *others = head
    if first == "SHOW":
        return f"SHOW {others[0]}"
    return f"DESCRIBE {others[0]}" if first in ("DESCRIBE", "DESC") else first


def _names(columns: str) -> list[str]:
    """The names in a list of columns as DDL, whose types have commas only in brackets."""
    depth, names, start = 0, [], 0
    for i, c in enumerate(columns + ","):
        depth += (c == "<") - (c == ">")
        if c == "," and not depth:
            names.append(columns[start:i].split()[0])
            start = i + 1
    return names


def _on_branch(place: Mapping[str, Any], branch: str) -> dict[str, Any]:
    if "id" in place:
        return {"id": [*place["id"], f"branch_{branch}"]}
    return {"options": {**place["options"], "branch": branch}}


@dataclass(frozen=True)
class _Token:
    kind: str
    value: str
    start: int
    end: int


class _Tokens:
    """The part of a statement after the name of the table, read from left to right."""

    def __init__(self, text: str, tokens: Sequence[_Token]) -> None:
        self._text, self._tokens, self._at = text, tokens, 0

    def _next(self, ahead: int = 0) -> _Token | None:
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
        if self._next() is not None:
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

    def options(self) -> dict[str, Any]:
        """The options in `WITH (name = value, ..)`; none without WITH."""
        found: dict[str, Any] = {}
        if not self.take("WITH"):
            return found
        self.need("(")
        while not self.take(")"):
            if found:
                self.need(",")
            name = self.name().lower()
            if name in found:
                raise InvalidOptionError(f"the option {name!r} is given twice")
            self.need("=")
            found[name] = self._value()
        return found

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


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "bigint": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "double": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
}


def _checked(
    verb: str, given: Mapping[str, Any], procedure: str, names: Mapping[str, str], without_effect: Sequence[str] = ()
) -> dict[str, Any]:
    """The options as arguments of a procedure; `names` are those of options that have other names than its arguments."""
    known = {name: kind for name, kind in PROCEDURES[procedure].parameters.items() if kind in _KINDS}
    found = {}
    for option, value in given.items():
        name = names.get(option, option)
        if option in without_effect:
            _LOG.warning("the option %s of %s has no effect", option, verb)
        elif name not in known:
            all_names = sorted({*known, *names, *without_effect})
            raise InvalidOptionError(
                f"{verb} has no option {option!r}{did_you_mean(option, all_names) or f'; its options are: {", ".join(all_names)}'}"
            )
        elif not _KINDS[known[name]](value):
            raise InvalidOptionError(f"the option {option!r} of {verb} takes a value of the type {known[name]}, not {value!r}")
        else:
            found[name] = value
    return found


def _same(*names: str) -> list[Column]:
    return [{"name": name, "column": name} for name in names]


def _optimize(rest: _Tokens) -> Call:
    full = rest.take("FULL")
    arguments: dict[str, Any] = {"where": rest.until("ZORDER BY", "WITH (")} if rest.take("WHERE") else {}
    if full or rest.take("ZORDER BY"):
        arguments |= {"full": True} if full else {"columns": rest.paths()}
        arguments |= _checked("OPTIMIZE", rest.options(), "cluster", {})
        return Call("cluster", arguments, _same("fragments_removed", "fragments_added", "rows"))
    options = rest.options()
    if "where" in arguments and "where" in options:
        raise InvalidOptionError("OPTIMIZE has two conditions: one after WHERE, and the option where")
    arguments |= _checked("OPTIMIZE", options, "compact", {}, ("max_rows_per_group", "num_threads", "batch_size"))
    return Call("compact", arguments, _same("fragments_removed", "fragments_added", "files_removed", "files_added"))


def _vacuum(rest: _Tokens) -> Call:
    arguments: dict[str, Any] = {}
    if rest.take("RETAIN"):
        arguments["older_than"] = round(rest.number() * _MICROS_PER_HOUR)
        rest.take_one_of("HOURS", "HOUR")
    if rest.take("DRY RUN"):
        arguments["dry_run"] = True
    options = rest.options()
    if "before_timestamp_millis" in options:
        options["before_timestamp_millis"] = _thousandfold(options["before_timestamp_millis"])
    arguments |= _checked("VACUUM", options, "cleanup", {"before_timestamp_millis": "before_micros"})
    shown = ("bytes_removed", "old_versions", *(["files"] if arguments.get("dry_run") else []))
    return Call("cleanup", arguments, _same(*shown))


def _thousandfold(value: Any) -> Any:
    return value * 1000 if _KINDS["bigint"](value) else value


def _restore(rest: _Tokens) -> Call:
    rest.need("TO")
    if rest.take_one_of("VERSION", "TIMESTAMP") == "VERSION":
        rest.need("AS OF")
        return Call("restore", {"version": rest.version()})
    rest.need("AS OF")
    return Call("restore", times={"timestamp": rest.until()})


def _history(rest: _Tokens) -> Call:
    return Call("history", {"limit": rest.count()} if rest.take("LIMIT") else {})


def _alter(rest: _Tokens) -> Call:
    if rest.take("SET"):
        rest.need("UNENFORCED PRIMARY KEY")
        columns = rest.paths()
        shown = [{"name": "status", "text": "OK"}, {"name": "primary_key_columns", "text": ", ".join(columns)}]
        return Call("set_primary_key", {"columns": columns}, shown)
    verb = rest.take_one_of("CREATE", "REPLACE", "DROP", "REFRESH", "OPTIMIZE")
    replaces = verb == "REPLACE" or (verb == "CREATE" and rest.take("OR REPLACE"))
    kind = rest.take_one_of(*(("INDEX", "TAG", "BRANCH") if verb in ("CREATE", "DROP") else ("TAG",) if replaces else ("INDEX",)))
    if kind == "INDEX":
        return _index(verb, rest)
    if verb == "DROP":
        return _dropped(kind, rest)
    return _tag(rest, replaces) if kind == "TAG" else _branch(rest)


def _index(verb: str, rest: _Tokens) -> Call:
    name = rest.name()
    shown: Column = {"name": "index_name", "text": name}
    if verb == "DROP":
        return Call("drop_index", {"name": name}, [shown, {"name": "status", "text": "dropped"}])
    indexed: Column = {"name": "fragments_indexed", "column": "fragments_indexed"}
    if verb == "CREATE":
        rest.need("USING")
        method = rest.name().upper()
        columns = rest.paths()
        if len(columns) > 1:
            raise InvalidOptionError(f"an index has one column, not {', '.join(columns)}; make an index of each")
        options = _checked("CREATE INDEX", rest.options(), "create_index", _INDEX_OPTIONS)
        kind = _METHODS.get(method, method)
        return Call("create_index", {"column": columns[0], "kind": kind, "name": name, **options}, [indexed, shown])
    arguments: dict[str, Any] = {"index_names": [name]}
    if verb == "REFRESH":
        added: Column = {"name": "segments_added", "column": "segments_added"}
        rest.options()
        return Call("optimize_indices", {**arguments, "num_indices_to_merge": 0}, [indexed, added, shown])
    arguments |= _checked("OPTIMIZE INDEX", rest.options(), "optimize_indices", {})
    return Call("optimize_indices", arguments, [shown, indexed, *_same("segments_before", "segments_after")])


_METHODS = {"FTS": "INVERTED"}
_INDEX_OPTIONS = {"distance_type": "metric"}


def _dropped(kind: str, rest: _Tokens) -> Call:
    if_exists = rest.take("IF EXISTS")
    return Call(f"delete_{kind.lower()}", {"name": rest.name(), "if_exists": if_exists})


def _tag(rest: _Tokens, replaces: bool) -> Call:
    arguments: dict[str, Any] = {} if replaces else {"if_not_exists": rest.take("IF NOT EXISTS")}
    return _reference("update_tag" if replaces else "create_tag", rest, arguments)


def _branch(rest: _Tokens) -> Call:
    return _reference("create_branch", rest, {"if_not_exists": rest.take("IF NOT EXISTS")})


def _reference(procedure: str, rest: _Tokens, arguments: dict[str, Any]) -> Call:
    """A new tag or branch of the latest version, or of the one after AS OF."""
    arguments["name"] = rest.name()
    branch = None
    if rest.take("AS OF"):
        what = rest.take_one_of("VERSION", "BRANCH", "TAG")
        branch = rest.name() if what == "BRANCH" else None
        if what == "TAG":
            arguments["version"] = rest.name()
        elif what == "VERSION" or rest.take("VERSION"):
            arguments["version"] = rest.version()
    return Call(procedure, arguments, _same("name"), branch=branch)


_INDEXES = _same("name", "fields")
_INDEXES += [{"name": "index_type", "column": "type"}]
_INDEXES += _same("num_indexed_fragments", "num_indexed_rows", "num_unindexed_fragments", "num_unindexed_rows")
_STATEMENTS: Mapping[str, Callable[[_Tokens], Call]] = {
    "OPTIMIZE": _optimize,
    "VACUUM": _vacuum,
    "RESTORE": _restore,
    "ALTER": _alter,
    "DESCRIBE HISTORY": _history,
    "DESCRIBE DETAIL": lambda rest: Call("detail"),
    **dict.fromkeys(("SHOW INDEXES", "SHOW INDEX"), lambda rest: Call("index_statistics", columns=_INDEXES)),
    **dict.fromkeys(("SHOW TAGS", "SHOW TAG"), lambda rest: Call("tags")),
    **dict.fromkeys(("SHOW BRANCHES", "SHOW BRANCH"), lambda rest: Call("branches")),
}
