"""The query of a full-text search, as users give it: a text or a dictionary; names and meaning are pylance's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

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

_MOST = 1 << 31
_MOST_LEAVES = 1024
"""A query has at most so many parts that search columns."""
_MOST_NESTED = 32


def text_query_of(given: object) -> TextQuery:
    """Check a query. Raises InvalidOptionError."""
    query = _query(given, 0)
    count = sum(1 for _ in leaves(query))
    if not 0 < count <= _MOST_LEAVES:
        raise InvalidOptionError(f"a full-text query has from 1 to {_MOST_LEAVES} parts that search columns, not {count}")
    return query


def _query(given: object, depth: int) -> TextQuery:
    if isinstance(given, str):
        return MatchQuery(given)
    if not isinstance(given, Mapping) or not given:
        shown = type(given).__name__ if not isinstance(given, Mapping) else given
        raise InvalidOptionError(f"full_text_query must be a text or a dictionary such as {{'match': {{'query': 'words'}}}}, not {shown}")
    if depth > _MOST_NESTED:
        raise InvalidOptionError(f"full_text_query is nested deeper than {_MOST_NESTED}")
    if "query" in given:
        return _of_columns(_Parameters("full_text_query", given, ("query", "columns")), depth)
    (kind, parameters), *others = given.items()
    if kind not in _KINDS or others:
        wrong = kind if kind not in _KINDS else others[0][0]
        raise InvalidOptionError(f"unknown key {wrong!r} of full_text_query; expected one of: {', '.join(('query', *_KINDS))}")
    if not isinstance(parameters, Mapping):
        raise InvalidOptionError(f"the parameters of {kind} must be a dictionary, not {parameters!r}")
    keys, make = _KINDS[kind]
    return make(_Parameters(kind, parameters, keys), depth + 1)


class _Parameters:
    """The parameters of a query, which are checked as they are read. Raises InvalidOptionError."""

    def __init__(self, what: str, given: Mapping[str, Any], keys: Sequence[str]) -> None:
        self._what, self._given = what, given
        if unknown := [key for key in given if key not in keys]:
            raise InvalidOptionError(f"{what} has no parameter {unknown[0]!r}; its parameters are: {', '.join(keys)}")

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
        given = self.get("query") if self.get("query") is not None else self.get("terms")
        if not isinstance(given, str):
            raise self._wrong("query", "a text", given)
        return given

    def column(self) -> str | None:
        """The column."""
        given = self.get("column")
        if given is not None and not isinstance(given, str):
            raise self._wrong("column", "the name of a column", given)
        return given

    def columns(self) -> tuple[str, ...]:
        """Names of columns, without those that are there twice."""
        given = self.needed("columns")
        if isinstance(given, str) or not isinstance(given, Sequence) or not given or not all(isinstance(c, str) for c in given):
            raise self._wrong("columns", "a list of names of columns", given)
        return tuple(given)

    def integer(self, name: str, default: int) -> int:
        """An integer of at least 0."""
        given = self._given.get(name, default)
        if not isinstance(given, Integral) or isinstance(given, bool) or not 0 <= int(given) < _MOST:
            raise self._wrong(name, "an integer of at least 0", given)
        return int(given)

    def number(self, name: str, default: float) -> float:
        """A finite number of at least 0."""
        return self._number(name, self._given.get(name, default), 0)

    def boosts(self, count: int, least: float) -> tuple[float, ...]:
        """A number for each of the columns, 1 by default."""
        given = self.get("boosts") if self.get("boosts") is not None else self.get("boost")
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
        if not isinstance(value, Real) or isinstance(value, bool) or not math.isfinite(float(value)) or float(value) < least:
            raise self._wrong(name, f"finite and at least {least}", value)
        return float(value)

    def _wrong(self, name: str, expected: str, value: object) -> InvalidOptionError:
        return InvalidOptionError(f"the parameter {name!r} of {self._what} must be {expected}, not {value!r}")


def _of_columns(given: _Parameters, depth: int) -> TextQuery:
    """A query for some columns: `{"query": .., "columns": [..]}`."""
    query = _query(given.needed("query"), depth + 1)
    columns = given.columns() if given.get("columns") else ()
    if not columns or not isinstance(query, MatchQuery | PhraseQuery):
        return query
    if isinstance(query, PhraseQuery):
        return PhraseQuery(query.text, columns[0], query.slop) if len(columns) == 1 else query
    matches = tuple(_in_column(query, column) for column in dict.fromkeys(columns))
    return matches[0] if len(matches) == 1 else MultiMatchQuery(matches)


def _in_column(query: MatchQuery, column: str) -> MatchQuery:
    return MatchQuery(query.text, column, query.needs_all, query.fuzziness, query.prefix_length, query.max_expansions, query.boost)


def _match(given: _Parameters, depth: int) -> TextQuery:
    fuzziness = given.get("fuzziness") if given.get("fuzziness") == "auto" else given.integer("fuzziness", 0)
    return MatchQuery(
        text=given.text(),
        column=given.column(),
        needs_all=given.needs_all(),
        fuzziness=None if fuzziness == "auto" else fuzziness,
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


def columns_of(leaf: Leaf) -> tuple[str, ...]:
    """The columns that a part of a query searches."""
    return leaf.columns if isinstance(leaf, CombinedFieldsQuery) else (leaf.column or "",)
