"""The documents of a part that have one of several words, or all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lance_spark.index.text.bm25 import Statistics, add_scores
from lance_spark.index.text.postings import Part
from lance_spark.kernels.kernel import kernel

_TOGETHER = 256
"""Posting lists that are read together: of so many, few are long."""

Word = tuple[str, ...]
"""A word of a query: the tokens that stand for it, which is one unless the search is fuzzy."""


def by_place(words: Sequence[Word], places: Sequence[int]) -> list[Word]:
    """The words with those at the same place as one: they stand for each other, as the n-grams of a text do."""
    found: dict[int, list[str]] = {}
    for word, place in zip(words, places):
        found.setdefault(place, []).extend(word)
    return [tuple(tokens) for tokens in found.values()]


@dataclass(frozen=True)
class Found:
    """Documents of a part (ascending), and their scores (float32)."""

    documents: np.ndarray
    scores: np.ndarray


def match(part: Part, words: Sequence[Word], needs_all: bool, statistics: Statistics) -> Found:
    """The documents that have a token of one of the words, or of each. A score is the sum of those of all tokens of all words."""
    scores = np.zeros(len(part.rows), np.float32)
    had = np.zeros(len(part.rows) if needs_all else 0, np.uint32)
    if not words:
        return Found(np.empty(0, np.int64), np.empty(0, np.float32))
    known = [(at, token, number) for at, word in enumerate(words) for token in word if (number := part.find(token)) is not None]
    if needs_all and len({at for at, _, _ in known}) < len(words):
        return Found(np.empty(0, np.int64), np.empty(0, np.float32))
    for start, (at, token, number) in enumerate(known):
        if start % _TOGETHER == 0:
            part.read_ahead([other for _, _, other in known[start : start + _TOGETHER]])
        found = part.postings(number)
        add_scores(scores, found.documents, found.frequencies, part.scored_lengths, statistics.weight(token), statistics.average_length)
        if needs_all:
            _mark(had, found.documents, at)
    documents = np.flatnonzero(had == len(words)) if needs_all else np.flatnonzero(scores)
    return Found(documents, scores[documents])


@kernel
def _mark(had: np.ndarray, documents: np.ndarray, word: int) -> None:
    """Count the word with this number for documents that had all words before."""
    for document in documents:
        if had[document] == word:
            had[document] = word + 1
