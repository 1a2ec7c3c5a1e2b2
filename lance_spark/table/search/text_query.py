"""The query of a full-text search, as users give it: a text or a dictionary; names and meaning are pylance's."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from numbers import Integral, Real
from typing import Any

import pyarrow as pa

from lance_spark.errors import InvalidOptionError
from lance_spark.index.text.queries import (
    BooleanQuery,
    BoostQuery,
    CombinedFieldsQuery,
    Leaf,
    MatchQuery,
    MultiMatchQuery,
    PhraseQuery,
    TextQuery,
    leaves,
)
from lance_spark.schema.schema import Field, Schema

_MOST_FUZZY = 32
"""The largest edit distance; tokens of indexes of pylance have at most 39 bytes."""
_LARGEST = 1e30
"""The largest boost: scores times it are finite as 32-bit numbers."""
_MOST_LEAVES = 1024
"""A query has at most so many parts that search columns."""
_MOST_NESTED = 32
_DEPTH = 3
"""A query in another one is so many values deeper: its dictionary, that of its parameters and a list."""
_MOST_VALUES = 1 << 16
_MOST_CHARACTERS = 1 << 20


def text_query_of(given: object, known: Schema) -> TextQuery:
    """Check a query of the columns `known`. Raises InvalidOptionError, or SchemaMismatchError for a column that is not there."""
    _check_size(given)
    query = _query(given, 0)
    count = sum(1 for _ in leaves(query))
    if not 0 < count <= _MOST_LEAVES:
        raise InvalidOptionError(f"a full-text query has from 1 to {_MOST_LEAVES} parts that search columns, not {count}")
    for name in {name for leaf in leaves(query) for name in columns_of(leaf) if name}:
        field_of(known, name)
    return query


def _check_size(given: object) -> None:
    """Raise InvalidOptionError for a query that is too large or too deep, or has a value that is no text, number, list or dictionary.

    A part that is there several times, as the same object, counts several times.
    """
    todo, count = [(given, 0)], 0
    while todo:
        value, depth = todo.pop()
        count += 1
        if depth > _DEPTH * _MOST_NESTED:
            raise InvalidOptionError(f"full_text_query is nested deeper than {_MOST_NESTED}")
        if count > _MOST_VALUES:
            raise InvalidOptionError(f"full_text_query has more than {_MOST_VALUES} values")
        if isinstance(value, str):
            _check_text(value)
        elif isinstance(value, Mapping):
            todo += [(inner, depth + 1) for pair in value.items() for inner in pair]
        elif isinstance(value, list | tuple):
            todo += [(inner, depth + 1) for inner in value]
        elif not isinstance(value, Real | Enum | None):
            raise InvalidOptionError(
                "full_text_query must be a text or a dictionary of texts, numbers, lists and dictionaries such as "
                f"{{'match': {{'query': 'words'}}}}, not {type(value).__name__}"
            )


def _check_text(text: str) -> None:
    if len(text) > _MOST_CHARACTERS:
        raise InvalidOptionError(f"a text in full_text_query has {len(text)} characters; at most {_MOST_CHARACTERS} are searched for")
    try:
        text.encode()
    except UnicodeEncodeError as e:
        raise InvalidOptionError(f"a text in full_text_query is no valid Unicode: {e}") from None


def _query(given: object, depth: int) -> TextQuery:
    if isinstance(given, str):
        return PhraseQuery(given[1:-1]) if _is_quoted(given) else MatchQuery(given)
    if not isinstance(given, Mapping) or not given:
        raise InvalidOptionError(
            f"full_text_query must be a text or a dictionary such as {{'match': {{'query': 'words'}}}}, not {reprlib.repr(given)}"
        )
    if depth > _MOST_NESTED:
        raise InvalidOptionError(f"full_text_query is nested deeper than {_MOST_NESTED}")
    if "query" in given:
        return _of_columns(_Parameters("full_text_query", given, ("query", "columns")), depth)
    (kind, parameters), *others = given.items()
    if kind not in _KINDS or others:
        wrong = kind if kind not in _KINDS else others[0][0]
        raise InvalidOptionError(f"unknown key {reprlib.repr(wrong)} of full_text_query; expected one of: {', '.join(('query', *_KINDS))}")
    if not isinstance(parameters, Mapping):
        raise InvalidOptionError(f"the parameters of {kind} must be a dictionary, not {reprlib.repr(parameters)}")
    keys, make = _KINDS[kind]
    return make(_Parameters(kind, parameters, keys), depth + 1)


def _is_quoted(text: object) -> bool:
    """Whether a text is in double quotes, which ask for its words as a phrase, as in pylance."""
    return isinstance(text, str) and len(text) > 1 and text[0] == text[-1] == '"'


class _Parameters:
    """The parameters of a query, which are checked as they are read. Raises InvalidOptionError."""

    def __init__(self, what: str, given: Mapping[str, Any], keys: Sequence[str]) -> None:
        self._what, self._given = what, given
        if unknown := [key for key in given if key not in keys]:
            raise InvalidOptionError(f"{what} has no parameter {reprlib.repr(unknown[0])}; its parameters are: {', '.join(keys)}")

    def get(self, name: str) -> Any:
        """The value; None if it is not given."""
        return self._given.get(name)

    def needed(self, name: str) -> Any:
        """The value, which must be given."""
        if self._given.get(name) is None:
            raise InvalidOptionError(f"{self._what} needs the parameter {name!r}")
        return self._given[name]

    def text(self) -> str:
        """The text that is searched for; in JSON queries of pylance it is called terms."""
        given = self._either("query", "terms")
        if not isinstance(given, str):
            raise self._wrong("query", "a text", given)
        return given

    def _either(self, name: str, other: str) -> Any:
        """The value under one of two names."""
        if self.get(name) is not None and self.get(other) is not None:
            raise InvalidOptionError(f"{self._what} has both {name!r} and {other!r}, which mean the same; give one of them")
        return self.get(other) if self.get(name) is None else self.get(name)

    def column(self) -> str | None:
        """The column."""
        given = self.get("column")
        if given is not None and not isinstance(given, str):
            raise self._wrong("column", "the name of a column", given)
        return given

    def columns(self) -> tuple[str, ...]:
        """Names of columns."""
        given = self.needed("columns")
        if isinstance(given, str) or not isinstance(given, Sequence) or not given or not all(isinstance(c, str) for c in given):
            raise self._wrong("columns", "a list of names of columns", given)
        return tuple(given)

    def integer(self, name: str, default: int, most: int = (1 << 31) - 1) -> int:
        """An integer of at least 0."""
        given = self._given.get(name, default)
        if not isinstance(given, Integral) or isinstance(given, bool) or not 0 <= int(given) <= most:
            raise self._wrong(name, f"an integer from 0 to {most}", given)
        return int(given)

    def number(self, name: str, default: float) -> float:
        """A finite number of at least 0."""
        return self._number(name, self._given.get(name, default), 0)

    def boosts(self, count: int, least: float) -> tuple[float, ...]:
        """A number for each of the columns, 1 by default."""
        given = self._either("boosts", "boost")
        if given is None:
            return (1.0,) * count
        if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != count:
            raise self._wrong("boosts", f"a list of {count} numbers, one for each column", given)
        return tuple(self._number("boosts", value, least) for value in given)

    def needs_all(self) -> bool:
        """Whether the operator is AND."""
        given = self._given.get("operator", "OR")
        given = getattr(given, "value", given)  # pylance's FullTextOperator
        if not isinstance(given, str) or given.upper() not in ("AND", "OR"):
            raise self._wrong("operator", "'and' or 'or'", given)
        return given.upper() == "AND"

    def clauses(self, name: str, depth: int) -> tuple[TextQuery, ...]:
        """A list of queries."""
        given = self._given.get(name, ())
        if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
            raise self._wrong(name, "a list of queries", given)
        return tuple(_query(clause, depth) for clause in given)

    def _number(self, name: str, value: object, least: float) -> float:
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        if not is_number or not least <= value <= _LARGEST:  # type: ignore[operator]
            raise self._wrong(name, f"from {least} to {_LARGEST:.0e}", value)
        return float(value)  # type: ignore[arg-type]

    def _wrong(self, name: str, expected: str, value: object) -> InvalidOptionError:
        return InvalidOptionError(f"the parameter {name!r} of {self._what} must be {expected}, not {reprlib.repr(value)}")


def _of_columns(given: _Parameters, depth: int) -> TextQuery:
    """A query for some columns: `{"query": .., "columns": [..]}`."""
    query = _query(given.needed("query"), depth + 1)
    columns = given.columns() if given.get("columns") else ()
    if not columns or not isinstance(query, MatchQuery | PhraseQuery):
        return query
    if isinstance(query, PhraseQuery):
        if len(columns) > 1 and _is_quoted(given.get("query")):
            raise InvalidOptionError(f"a phrase is searched for in one column, not in {', '.join(columns)}")
        return PhraseQuery(query.text, columns[0], query.slop) if len(columns) == 1 else query
    matches = tuple(_in_column(query, column) for column in dict.fromkeys(columns))
    return matches[0] if len(matches) == 1 else MultiMatchQuery(matches)


def _in_column(query: MatchQuery, column: str) -> MatchQuery:
    return MatchQuery(query.text, column, query.needs_all, query.fuzziness, query.prefix_length, query.max_expansions, query.boost)


def _match(given: _Parameters, depth: int) -> TextQuery:
    fuzziness = given.get("fuzziness")
    return MatchQuery(
        text=given.text(),
        column=given.column(),
        needs_all=given.needs_all(),
        fuzziness=None if fuzziness == "auto" else given.integer("fuzziness", 0, _MOST_FUZZY),
        prefix_length=given.integer("prefix_length", 0),
        max_expansions=given.integer("max_expansions", 50),
        boost=given.number("boost", 1.0),
    )


def _phrase(given: _Parameters, depth: int) -> TextQuery:
    return PhraseQuery(given.text(), given.column(), given.integer("slop", 0))


def _boost(given: _Parameters, depth: int) -> TextQuery:
    positive, negative = (_query(given.needed(name), depth) for name in ("positive", "negative"))
    return BoostQuery(positive, negative, given.number("negative_boost", 0.5))


def _multi_match(given: _Parameters, depth: int) -> TextQuery:
    columns, text, needs_all = given.columns(), given.text(), given.needs_all()
    return MultiMatchQuery(
        tuple(MatchQuery(text, column, needs_all, boost=boost) for column, boost in zip(columns, given.boosts(len(columns), 0)))
    )


def _combined_fields(given: _Parameters, depth: int) -> TextQuery:
    columns = given.columns()
    if twice := [name for name in columns if columns.count(name) > 1]:
        raise InvalidOptionError(f"the columns of combined_fields must differ, but {twice[0]!r} is there twice; give it a higher boost")
    return CombinedFieldsQuery(given.text(), columns, given.boosts(len(columns), 1), given.needs_all())


def _boolean(given: _Parameters, depth: int) -> TextQuery:
    must, should, must_not = (given.clauses(name, depth) for name in ("must", "should", "must_not"))
    if not must and not should:
        raise InvalidOptionError("a boolean query needs at least one query in must or should")
    return BooleanQuery(must, should, must_not)


_TEXT = ("query", "terms")
_KINDS: Mapping[str, tuple[Sequence[str], Callable[[_Parameters, int], TextQuery]]] = {
    "match": ((*_TEXT, "column", "operator", "fuzziness", "prefix_length", "max_expansions", "boost"), _match),
    "phrase": ((*_TEXT, "column", "slop"), _phrase),
    "boost": (("positive", "negative", "negative_boost"), _boost),
    "multi_match": ((*_TEXT, "columns", "operator", "boosts", "boost"), _multi_match),
    "combined_fields": ((*_TEXT, "columns", "operator", "boosts", "boost"), _combined_fields),
    "boolean": (("must", "should", "must_not"), _boolean),
}
"""The kinds of queries: their parameters, and what makes one."""


def with_columns(query: TextQuery, indexed: Sequence[str]) -> TextQuery:
    """The query with a column in each of its parts: without one, a match is in all `indexed` columns, a phrase in the only one.

    Raises InvalidOptionError if there is none.
    """
    match query:
        case MatchQuery(column=None):
            matches = tuple(_in_column(query, column) for column in _some(indexed))
            return matches[0] if len(matches) == 1 else MultiMatchQuery(matches)
        case PhraseQuery(column=None):
            if len(_some(indexed)) > 1:
                raise InvalidOptionError(f"several columns have a full-text index: {', '.join(indexed)}; the phrase must name its column")
            return PhraseQuery(query.text, indexed[0], query.slop)
        case BoostQuery():
            positive, negative = (with_columns(part, indexed) for part in (query.positive, query.negative))
            return BoostQuery(positive, negative, query.negative_boost)
        case BooleanQuery():
            groups = (query.must, query.should, query.must_not)
            return BooleanQuery(*(tuple(with_columns(clause, indexed) for clause in group) for group in groups))
    return query


def _some(indexed: Sequence[str]) -> Sequence[str]:
    if not indexed:
        raise InvalidOptionError("no column has a full-text index; the query must name the columns to be searched")
    return indexed


def field_of(known: Schema, name: str) -> tuple[tuple[str, ...], Field]:
    """The path and the field of a column with texts. Raises SchemaMismatchError or InvalidOptionError."""
    steps = known.resolve(name)
    field = steps[-1]
    if field.logical_type != "json" and not _is_text(field.type):
        raise InvalidOptionError(
            f"full-text search needs a column of texts, lists of texts or JSON; column {name!r} is of type {field.type}"
        )
    return tuple(f.name for f in steps), field


def _is_text(t: pa.DataType) -> bool:
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        t = t.value_type
    return bool(pa.types.is_string(t) or pa.types.is_large_string(t))


def columns_of(leaf: Leaf) -> tuple[str, ...]:
    """The columns that a part of a query searches."""
    return leaf.columns if isinstance(leaf, CombinedFieldsQuery) else (leaf.column or "",)
