"""The rows that satisfy a full-text query, and their scores: each part of a query is searched for, and what it finds is combined."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import numpy as np

from lance_spark.errors import CorruptFileError, InvalidOptionError
from lance_spark.index.text.best import best
from lance_spark.index.text.bm25 import Statistics
from lance_spark.index.text.conditions import distance, fixed_start, plain_words
from lance_spark.index.text.match import Found, Word, by_place, match
from lance_spark.index.text.phrase import phrase
from lance_spark.index.text.postings import Part
from lance_spark.index.text.queries import (
    BooleanQuery,
    BoostQuery,
    CombinedFieldsQuery,
    MatchQuery,
    MultiMatchQuery,
    PhraseQuery,
    TextQuery,
    leaves,
)
from lance_spark.table.search.combined_fields import combined_fields
from lance_spark.table.search.text_column import Scored, TextColumn, damaged
from lance_spark.table.search.text_query import columns_of

_MOST_TOKENS = 1 << 16
"""The tokens that the words of a fuzzy query may stand for in a part of an index."""


def scored(query: TextQuery, columns: Mapping[str, TextColumn], most: int | None = None) -> Scored:
    """The rows that satisfy the query, whose parts name the `columns`; at least the `most` best ones."""
    for leaf in leaves(query):
        for name in columns_of(leaf):
            columns[name].want(columns[name].analyzer.query(leaf.text)[0])
    return _scored(query, columns, most)


def _scored(query: TextQuery, columns: Mapping[str, TextColumn], most: int | None = None) -> Scored:
    match query:
        case MatchQuery():
            return _match(query, columns[query.column or ""], most if query.boost > 0 else None)
        case PhraseQuery():
            return _phrase(query, columns[query.column or ""], most)
        case CombinedFieldsQuery():
            return combined_fields(query, [columns[name] for name in query.columns])
        case MultiMatchQuery():
            return reduce(_best_of, [_scored(inner, columns, most) for inner in query.matches])
        case BoostQuery():
            return _boost(_scored(query.positive, columns), _scored(query.negative, columns), query.negative_boost)
        case BooleanQuery():
            must, should, must_not = ([_scored(inner, columns) for inner in group] for group in (query.must, query.should, query.must_not))
            return _boolean(must, should, must_not)


def _match(query: MatchQuery, column: TextColumn, most: int | None) -> Scored:
    tokens, places = column.analyzer.query(query.text)
    exact = by_place([(token,) for token in tokens], places)
    expanded = _expanded(query, column) if query.fuzziness != 0 else {}

    def ask(part: Part, statistics: Statistics, most: int | None) -> Found:
        words = expanded.get(id(part), exact)
        if most is not None and not (query.needs_all and any(len(word) != 1 for word in words)):
            found = best(part, [token for word in words for token in word], query.needs_all, statistics, most)
            if found is not None:
                return found
        return match(part, words, query.needs_all, statistics)

    known = {token for words in expanded.values() for word in words for token in word}
    found = column.search(ask, frozenset({*tokens, *known}), most)
    return found if query.boost == 1 else Scored(found.addresses, found.scores * np.float32(query.boost))


def _expanded(query: MatchQuery, column: TextColumn) -> dict[int, list[Word]]:
    """The words of a fuzzy query as the tokens of each part of the index that are similar.

    As in pylance, the tokens of all words are counted together.
    """
    if column.damage is not None:
        raise CorruptFileError(
            f"similar words are searched for in an index only, but a segment of index {column.damage.index.name!r} of column "
            f"{column.field.name!r} cannot be read: {column.damage}; drop the index and create it again, or search without fuzziness"
        )
    is_json = column.analyzer.is_json
    tokens, places = plain_words(query.text, is_json)
    expanded: dict[int, list[Word]] = {}
    for segment, index in column.segments:
        for part in index.parts:
            words, left = [], query.max_expansions
            for token in tokens:
                fixed = fixed_start(token, is_json)
                with damaged(segment.index):
                    similar = part.similar(
                        token, distance(query.fuzziness, token[fixed:]), fixed + query.prefix_length, min(left, _MOST_TOKENS + 1)
                    )
                left -= len(similar)
                if query.max_expansions - left > _MOST_TOKENS:
                    raise InvalidOptionError(
                        f"more than {_MOST_TOKENS} tokens are similar to the words {reprlib.repr(query.text)}; give a lower max_expansions"
                    )
                words.append(tuple(similar))
            expanded[id(part)] = by_place(words, places)
    return expanded


def _phrase(query: PhraseQuery, column: TextColumn, most: int | None) -> Scored:
    if not column.has_positions:
        raise InvalidOptionError(
            f"a phrase needs the positions of words, which the index of column {query.column!r} does not have; "
            "create the index with with_position=True"
        )
    tokens, places = column.analyzer.query(query.text)

    def ask(part: Part, statistics: Statistics, most: int | None) -> Found:
        found = None if most is None else best(part, tokens, True, statistics, most, places, query.slop)
        return phrase(part, tokens, places, query.slop, statistics) if found is None else found

    return column.search(ask, frozenset(tokens), most)


def _at(rows: Scored, addresses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of the addresses are among the rows, and their scores; 0 for others."""
    if not len(rows.addresses):
        return np.zeros(len(addresses), np.bool_), np.zeros(len(addresses), np.float32)
    at = np.minimum(np.searchsorted(rows.addresses, addresses), len(rows.addresses) - 1)
    there = rows.addresses[at] == addresses
    return there, np.where(there, rows.scores[at], np.float32(0))


def _either(a: Scored, b: Scored, combine: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Scored:
    addresses = np.union1d(a.addresses, b.addresses)
    return Scored(addresses, combine(_at(a, addresses)[1], _at(b, addresses)[1]))


def _best_of(a: Scored, b: Scored) -> Scored:
    return _either(a, b, np.maximum)


def _boost(positive: Scored, negative: Scored, by: float) -> Scored:
    return Scored(positive.addresses, positive.scores - np.float32(by) * _at(negative, positive.addresses)[1])


def _boolean(must: Sequence[Scored], should: Sequence[Scored], must_not: Sequence[Scored]) -> Scored:
    found = reduce(_both, must) if must else reduce(lambda a, b: _either(a, b, np.add), should)
    for more in should if must else ():
        found = Scored(found.addresses, found.scores + _at(more, found.addresses)[1])
    for excluded in must_not:
        kept = ~_at(excluded, found.addresses)[0]
        found = Scored(found.addresses[kept], found.scores[kept])
    return found


def _both(a: Scored, b: Scored) -> Scored:
    there, more = _at(b, a.addresses)
    return Scored(a.addresses[there], a.scores[there] + more[there])
