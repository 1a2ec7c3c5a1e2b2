"""The documents of a part that have the words of a phrase one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lance_spark.index.text.bm25 import Statistics
from lance_spark.index.text.match import Found, Word, match
from lance_spark.index.text.postings import Part
from lance_spark.kernels.kernel import kernel


def phrase(part: Part, tokens: Sequence[str], places: Sequence[int], slop: int, statistics: Statistics) -> Found:
    """The documents with the tokens at positions whose distances are those of the `places`, each up to `slop` more.

    Of tokens at one place, such as a name and its first word, one is enough. The score is that of all tokens that the document has.
    """
    words = at_places(tokens, places)
    found = match(part, list(words.values()), needs_all=True, statistics=statistics)
    if len(words) < 2 or not len(found.documents):
        return found
    kept = np.ones(len(found.documents), np.bool_)
    reach: tuple[np.ndarray, np.ndarray] | None = None
    for place, word in words.items():
        bounds, positions = _positions(part, word, found.documents)
        positions = positions.astype(np.int64) - place
        if reach is not None:
            ends = np.zeros(len(positions), np.bool_)
            _follow(*reach, bounds, positions, slop, ends, kept)
            counts = np.concatenate([[0], np.cumsum(ends)])
            bounds, positions = counts[bounds], positions[ends]
        reach = bounds, positions
    return Found(found.documents[kept], found.scores[kept])


def at_places(tokens: Sequence[str], places: Sequence[int]) -> dict[int, Word]:
    """The tokens of a phrase by their place, in ascending order."""
    words: dict[int, Word] = dict.fromkeys(sorted(places), ())
    for token, place in zip(tokens, places):
        words[place] = (*words[place], token)
    return words


def _positions(part: Part, word: Word, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The positions of the tokens of a word in these documents, one after the other, and the bounds of those of each."""
    where, found = zip(*(_of_token(part, number, documents) for token in word if (number := part.find(token)) is not None))
    of, positions = np.concatenate(where), np.concatenate(found)
    if len(where) > 1:
        of, positions = np.unique(np.stack([of, positions.astype(np.int64)]), axis=1)
    return np.searchsorted(of, np.arange(len(documents) + 1)), positions


def _of_token(part: Part, number: int, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The positions of a token in those of the documents that have it, and for each the number of its document."""
    having, positions = part.postings(number), part.positions(number)
    first = np.concatenate([[0], np.cumsum(having.frequencies, dtype=np.int64)])
    at = np.minimum(np.searchsorted(having.documents, documents), len(having.documents) - 1)
    counts = np.where(having.documents[at] == documents, having.frequencies[at], 0).astype(np.int64)
    bounds = np.concatenate([[0], np.cumsum(counts)])
    chosen = np.arange(bounds[-1]) + np.repeat(first[at] - bounds[:-1], counts)
    return np.repeat(np.arange(len(documents)), counts), positions[chosen]


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
