"""The documents of a part that have one of several words, or all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lance_spark.index.text.bm25 import Statistics, add_scores
from lance_spark.index.text.postings import Part
from lance_spark.kernels.kernel import kernel

Word = tuple[str, ...]
"""A word of a query: the tokens that stand for it, which is one unless the search is fuzzy."""


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
    for at, word in enumerate(words):
        numbers = [(token, number) for token in word if (number := part.find(token)) is not None]
        if needs_all and not numbers:
            return Found(np.empty(0, np.int64), np.empty(0, np.float32))
        for token, number in numbers:
            found = part.postings(number)
            weight = statistics.weight(token)
            add_scores(scores, found.documents, found.frequencies, part.lengths, weight, statistics.average_length)
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
