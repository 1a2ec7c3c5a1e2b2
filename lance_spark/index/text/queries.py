"""Queries of full-text searches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class MatchQuery:
    """Rows with one of the words of the text (with `needs_all`: with each); without a column, in any of the columns with an index.

    `fuzziness` is the edit distance up to which words count, None one that depends on their length; they start with the first
    `prefix_length` characters, and `max_expansions` such words are searched for. Scores are multiplied by `boost`.
    """

    text: str
    column: str | None = None
    needs_all: bool = False
    fuzziness: int | None = 0
    prefix_length: int = 0
    max_expansions: int = 50
    boost: float = 1.0


@dataclass(frozen=True)
class PhraseQuery:
    """Rows with the words of the text one after the other; between two there may be `slop` other words."""

    text: str
    column: str | None = None
    slop: int = 0


@dataclass(frozen=True)
class BoostQuery:
    """Rows of `positive`; the scores of those that `negative` finds too are reduced by its scores times `negative_boost`."""

    positive: TextQuery
    negative: TextQuery
    negative_boost: float = 0.5


@dataclass(frozen=True)
class MultiMatchQuery:
    """Rows of any of the matches, with the best of their scores."""

    matches: tuple[MatchQuery, ...]


@dataclass(frozen=True)
class BooleanQuery:
    """Rows of all of `must`, or else of any of `should`, that are in none of `must_not`; scores are added up."""

    must: tuple[TextQuery, ...] = ()
    should: tuple[TextQuery, ...] = ()
    must_not: tuple[TextQuery, ...] = ()


@dataclass(frozen=True)
class CombinedFieldsQuery:
    """Rows with one of the words of the text (with `needs_all`: with each) in any of the columns, as if these were one column.

    A word in a column counts as often as its boost says.
    """

    text: str
    columns: tuple[str, ...]
    boosts: tuple[float, ...]
    needs_all: bool = False


TextQuery = MatchQuery | PhraseQuery | BoostQuery | MultiMatchQuery | BooleanQuery | CombinedFieldsQuery
Leaf = MatchQuery | PhraseQuery | CombinedFieldsQuery


def leaves(query: TextQuery) -> Iterator[Leaf]:
    """The queries in a query that search columns."""
    match query:
        case BoostQuery():
            yield from leaves(query.positive)
            yield from leaves(query.negative)
        case MultiMatchQuery():
            yield from query.matches
        case BooleanQuery():
            for inner in (*query.must, *query.should, *query.must_not):
                yield from leaves(inner)
        case _:
            yield query
