"""The documents of a part that have the words of a phrase one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lance_spark.index.text.bm25 import Statistics
from lance_spark.index.text.match import Found, match
from lance_spark.index.text.postings import Part
from lance_spark.kernels.kernel import kernel


def phrase(part: Part, tokens: Sequence[str], places: Sequence[int], slop: int, statistics: Statistics) -> Found:
    """The documents with the tokens at positions whose distances are those of the `places`, each up to `slop` more.

    The score is that of the words without the phrase.
    """
    found = match(part, [(token,) for token in tokens], needs_all=True, statistics=statistics)
    if len(tokens) < 2 or not len(found.documents):
        return found
    kept = np.ones(len(found.documents), np.bool_)
    reach: tuple[np.ndarray, np.ndarray] | None = None
    for token, place in zip(tokens, places):
        bounds, positions = _positions(part, token, found.documents)
        positions = positions.astype(np.int64) - place
        if reach is not None:
            ends = np.zeros(len(positions), np.bool_)
            _follow(*reach, bounds, positions, slop, ends, kept)
            counts = np.concatenate([[0], np.cumsum(ends)])
            bounds, positions = counts[bounds], positions[ends]
        reach = bounds, positions
    return Found(found.documents[kept], found.scores[kept])


def _positions(part: Part, token: str, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The positions of a token in these documents, which all have it, one after the other, and the bounds of those of each."""
    number = part.find(token)
    assert number is not None, "the documents have the token"
    having, all_positions = part.postings(number), part.positions(number)
    first = np.concatenate([[0], np.cumsum(having.frequencies, dtype=np.int64)])
    at = np.searchsorted(having.documents, documents)
    counts = having.frequencies[at].astype(np.int64)
    bounds = np.concatenate([[0], np.cumsum(counts)])
    chosen = np.arange(bounds[-1]) + np.repeat(first[at] - bounds[:-1], counts)
    return bounds, all_positions[chosen]


@kernel
def _follow(
    before: np.ndarray, earlier: np.ndarray, bounds: np.ndarray, positions: np.ndarray, slop: int, ends: np.ndarray, kept: np.ndarray
) -> None:
    """Set `ends` for the positions that follow an earlier one of the same document by at most `slop`; unset `kept` where there is none.

    Positions are relative to the places in the phrase, so that those of words one after the other are equal.
    """
    for document in range(len(kept)):
        any_ = False
        low = before[document]
        for i in range(bounds[document], bounds[document + 1]):
            while low < before[document + 1] and earlier[low] < positions[i] - slop:
                low += 1
            if low < before[document + 1] and earlier[low] <= positions[i]:
                ends[i] = True
                any_ = True
        kept[document] &= any_
