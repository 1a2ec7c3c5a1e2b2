"""Searching several columns as if they were one: BM25F.

The frequency of a token in a row, and the length of the row, are the sums over the columns, each times its boost. As in Lucene, the number
of rows, and that of rows with a token, are the largest of a column.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lance_spark.errors import InvalidOptionError
from lance_spark.index.text.bm25 import K1, B, Statistics, inverse_frequency
from lance_spark.index.text.match import Found
from lance_spark.index.text.postings import Part
from lance_spark.index.text.queries import CombinedFieldsQuery
from lance_spark.table.search.text_column import Scored, TextColumn

_F = np.float32


def combined_fields(query: CombinedFieldsQuery, columns: Sequence[TextColumn]) -> Scored:
    """The rows that have one of the words, or each, in any of the columns. Raises InvalidOptionError for columns that differ in tokens."""
    parameters = [column.parameters for column in columns if column.parameters is not None]
    if not parameters or any(p != parameters[0] for p in parameters):
        raise InvalidOptionError("the columns of combined_fields need a full-text index, with the same parameters in all of them")
    analyzer = next(column.analyzer for column in columns if column.parameters is not None)
    tokens = list(dict.fromkeys(analyzer.query(query.text)[0]))  # a word that is asked twice counts once, as in pylance
    each = [column.statistics(frozenset(tokens))[1] for column in columns]
    documents = max(statistics.documents for statistics in each)
    length = sum(_F(boost) * _F(statistics.tokens) for boost, statistics in zip(query.boosts, each)) / _F(max(documents, 1))
    having = {token: [_frequencies(column, token) for column in columns] for token in set(tokens)}
    found = [rows.addresses for of_columns in having.values() for rows in of_columns]
    addresses = np.unique(np.concatenate([np.empty(0, np.uint64), *found]))
    lengths = np.zeros(len(addresses), np.float32)
    for column, boost in zip(columns, query.boosts):
        lengths += _F(boost) * _values(_lengths(column), addresses)
    scores, every = np.zeros(len(addresses), np.float32), np.ones(len(addresses), np.bool_)
    for token in tokens:
        frequencies = np.zeros(len(addresses), np.float32)
        for rows, boost in zip(having[token], query.boosts):
            frequencies += _F(boost) * _values(rows, addresses)
        weight = inverse_frequency(max(statistics.having[token] for statistics in each), documents)
        scores += weight * ((K1 + _F(1)) * frequencies / (frequencies + K1 * (_F(1) - B + B * lengths / length)))
        every &= frequencies > 0
    return Scored(addresses[every], scores[every]) if query.needs_all else Scored(addresses, scores)


def _frequencies(column: TextColumn, token: str) -> Scored:
    """The rows with a token, and how often each has it."""

    def ask(part: Part, _: Statistics, most: int | None) -> Found:
        number = part.find(token)
        if number is None:
            return Found(np.empty(0, np.int64), np.empty(0, np.float32))
        postings = part.postings(number)
        return Found(postings.documents, postings.frequencies.astype(np.float32))

    return column.search(ask, frozenset())


def _lengths(column: TextColumn) -> Scored:
    """All rows, and the number of tokens of each."""
    return column.search(lambda part, _, most: Found(np.arange(len(part.rows)), part.lengths.astype(np.float32)), frozenset())


def _values(rows: Scored, addresses: np.ndarray) -> np.ndarray:
    """The scores of the rows at these addresses; 0 for others."""
    at = np.minimum(np.searchsorted(rows.addresses, addresses), max(len(rows.addresses) - 1, 0))
    return (
        np.where(rows.addresses[at] == addresses, rows.scores[at], _F(0)) if len(rows.addresses) else np.zeros(len(addresses), np.float32)
    )
