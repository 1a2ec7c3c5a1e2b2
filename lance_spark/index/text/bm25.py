"""BM25 scores: how much a document is about the words of a query.

All numbers are float32, as in pylance. A token that few documents have weighs more; a document with more occurrences of it scores higher,
and a longer document lower. The numbers of documents and tokens are those of the whole index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lance_spark.index.text.postings import Part
from lance_spark.kernels.kernel import kernel

_F = np.float32
K1, B = _F(1.2), _F(0.75)
"""The parameters of BM25, as in pylance and Lucene."""


@dataclass(frozen=True)
class Statistics:
    """The number of documents, the number of their tokens, and of some tokens the number of documents that have them."""

    documents: int
    tokens: int
    having: Mapping[str, int]

    def __add__(self, other: Statistics) -> Statistics:
        having = {token: self.having.get(token, 0) + other.having.get(token, 0) for token in {**self.having, **other.having}}
        return Statistics(self.documents + other.documents, self.tokens + other.tokens, having)

    @property
    def average_length(self) -> np.float32:
        """The number of tokens of a document on average."""
        return _F(self.tokens) / _F(max(self.documents, 1))

    def weight(self, token: str) -> np.float32:
        """The inverse document frequency of a token."""
        return inverse_frequency(self.having.get(token, 0), self.documents)


def inverse_frequency(having: int, documents: int) -> np.float32:
    """The weight of a token that `having` of the documents have."""
    n, total = _F(having), _F(documents)
    return _F(np.log((total - n + _F(0.5)) / (n + _F(0.5)) + _F(1)))


def statistics_of(parts: Sequence[Part], tokens: frozenset[str]) -> Statistics:
    """The statistics of all documents of the parts for these tokens."""
    having = dict.fromkeys(tokens, 0)
    for part in parts:
        for token in tokens:
            number = part.find(token)
            having[token] += 0 if number is None else part.count(number)
    return Statistics(sum(len(part.rows) for part in parts), sum(part.total_tokens for part in parts), having)


@kernel
def add_scores(
    scores: np.ndarray, documents: np.ndarray, frequencies: np.ndarray, lengths: np.ndarray, weight: np.float32, average: np.float32
) -> None:
    """Add to the score of each of the documents that of a token, which has these frequencies. Documents must be in range."""
    k1, b, one = np.float32(1.2), np.float32(0.75), np.float32(1)
    for i in range(len(documents)):
        document = documents[i]
        f = np.float32(frequencies[i])
        norm = k1 * (one - b + b * np.float32(lengths[document]) / average)
        scores[document] += weight * ((k1 + one) * f / (f + norm))


def scores_of(bounds: np.ndarray, documents: np.ndarray, frequencies: np.ndarray, lengths: np.ndarray, average: np.float32) -> np.ndarray:
    """The score (float32) that each document has by the token of its posting list, among `lengths` documents of a partition.

    List i has `documents[bounds[i]:bounds[i + 1]]`.
    """
    counts = np.diff(bounds)
    weights = np.array([inverse_frequency(int(n), len(lengths)) for n in np.unique(counts)], _F)[np.unique(counts, return_inverse=True)[1]]
    scores = np.empty(len(documents), _F)
    _scores(bounds, documents, frequencies, lengths, weights, _F(average), scores)
    return scores


@kernel
def _scores(
    bounds: np.ndarray,
    documents: np.ndarray,
    frequencies: np.ndarray,
    lengths: np.ndarray,
    weights: np.ndarray,
    average: np.float32,
    scores: np.ndarray,
) -> None:
    k1, b, one = np.float32(1.2), np.float32(0.75), np.float32(1)
    for token in range(len(bounds) - 1):
        for i in range(bounds[token], bounds[token + 1]):
            f = np.float32(frequencies[i])
            norm = k1 * (one - b + b * np.float32(lengths[documents[i]]) / average)
            scores[i] = weights[token] * ((k1 + one) * f / (f + norm))
