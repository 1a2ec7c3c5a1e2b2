"""The best documents of a part for some words: those that cannot be among them are passed over, a block of a posting list at once.

A block has the largest score that one of its documents can get from its token. Where the sum of such scores does not reach that of the
worst of the best documents so far, the documents of the block are not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lance_spark.index.text.bm25 import Statistics
from lance_spark.index.text.largest import BLOCK, score_of
from lance_spark.index.text.match import Found
from lance_spark.index.text.postings import Part
from lance_spark.kernels.kernel import kernel

MOST = 1 << 12
"""More documents than these are not picked: finding all is then about as fast."""

_MOST_LISTS, _MOST_POSTINGS = 64, 1 << 23
"""More lists, or longer ones, are scored one after the other, since all lists of a choice are in memory: 64 MiB."""

_MORE = np.float32(1.00001)
"""Bounds are rounded up, since scores are summed in another order than bounds."""


_Arrays = tuple[np.ndarray, ...]
_ARRAYS = 4
"""So many lists are in arrays of their own; more are copied into one, so that kernels are compiled for one number of arrays."""


@dataclass(frozen=True)
class _Lists:
    """Posting lists: list i has `documents[array[i]][starts[i]:ends[i]]`, and its blocks have the bounds `highest[blocks[i]:]`.

    The positions of its document k are in `positions[array[i]]` from `first[array[i]][k]` on.
    """

    documents: _Arrays
    frequencies: _Arrays
    array: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    highest: np.ndarray
    blocks: np.ndarray
    weights: np.ndarray
    positions: _Arrays
    first: _Arrays


def best(
    part: Part, tokens: Sequence[str], needs_all: bool, statistics: Statistics, count: int, places: Sequence[int] = (), slop: int = 0
) -> Found | None:
    """The `count` best documents with one of the tokens, or with each; of documents with equal scores those with lower row ids.

    Of documents with all tokens, only those with each at its place, if places are given; see `phrase`. None if there is too much to be
    picked from, or if tokens have the same place: one of them is enough.
    """
    if len(set(places)) < len(places):
        return None
    numbers = [part.find(token) for token in tokens]
    known = [(number, statistics.weight(token)) for token, number in zip(tokens, numbers) if number is not None]
    if not known or (needs_all and len(known) < len(tokens)):
        return Found(np.empty(0, np.int64), np.empty(0, np.float32))
    if not 0 < count <= MOST or len(known) > _MOST_LISTS or sum(part.count(number) for number, _ in known) > _MOST_POSTINGS:
        return None
    lists = _lists(part, known, statistics.average_length, bool(len(places)))
    heap, scores = np.empty(count, np.int64), np.empty(count, np.float32)
    given = (lists.documents, lists.frequencies, lists.array, lists.starts, lists.ends, lists.highest, lists.blocks, lists.weights)
    common = (part.scored_lengths, statistics.average_length, part.rows, heap, scores)
    if len(known) == 1:
        found = _best_of_one(lists.documents[0], lists.frequencies[0], lists.highest, lists.weights[0], *common)
    elif needs_all:
        found = _best_of_all(*given, lists.positions, lists.first, np.array(places, np.int64), slop, *common)
    else:
        found = _best_of_any(*given, *common)
    order = np.argsort(heap[:found], kind="stable")
    return Found(heap[:found][order], scores[:found][order])


def _lists(part: Part, known: Sequence[tuple[int, np.float32]], average: np.float32, with_positions: bool) -> _Lists:
    numbers = [number for number, _ in known]
    part.read_ahead(numbers)
    postings = [part.postings(number) for number in numbers]
    highest = [part.largest(number, average) for number in numbers]
    positions = [part.positions(number) for number in numbers] if with_positions else []
    first = [part.first_positions(number) for number in numbers] if with_positions else []
    bounds = np.cumsum([0, *(len(found.documents) for found in postings)])
    are_together = len(known) > _ARRAYS
    if are_together:
        array, starts, ends = np.zeros(len(known), np.int64), bounds[:-1], bounds[1:]
        before = np.cumsum([0, *map(len, positions)])
        first = [places + place for places, place in zip(first, before)]
    else:
        array, starts, ends = np.arange(len(known)), np.zeros(len(known), np.int64), np.diff(bounds)
    return _Lists(
        documents=_arrays([found.documents for found in postings], np.uint32),
        frequencies=_arrays([found.frequencies for found in postings], np.uint32),
        array=array,
        starts=starts,
        ends=ends,
        highest=np.concatenate(highest),
        blocks=np.cumsum([0, *map(len, highest)]),
        weights=np.array([weight for _, weight in known], np.float32),
        positions=_arrays(positions, np.uint32),
        first=_arrays(first, np.int64),
    )


def _arrays(lists: Sequence[np.ndarray], t: Any) -> _Arrays:
    arrays = [np.concatenate(lists)] if len(lists) > _ARRAYS else lists
    return (*arrays, *[np.empty(0, t)] * (_ARRAYS - len(arrays)))


@kernel
def _seek(documents: np.ndarray, at: int, stop: int, wanted: Any) -> Any:
    """The first place from `at` on whose document is not below `wanted`; `stop` if there is none."""
    step = 1
    low: Any = at
    high: Any = at
    while high < stop and documents[high] < wanted:
        low = high + 1
        high += step
        step *= 2
    high = min(high, stop)
    while low < high:
        middle = (low + high) // 2
        if documents[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _is_worse(document: Any, score: Any, other: Any, other_score: Any, rows: np.ndarray) -> bool:
    return bool(score < other_score or (score == other_score and rows[document] > rows[other]))


@kernel
def _keep(heap: np.ndarray, scores: np.ndarray, count: int, document: Any, score: Any, rows: np.ndarray) -> int:
    """Add a document to the best ones, whose worst is at the root; how many they are."""
    if count == len(heap):
        if count == 0 or not _is_worse(heap[0], scores[0], document, score, rows):
            return count
        at = 0
        while True:
            child = 2 * at + 1
            if child >= count:
                break
            if child + 1 < count and _is_worse(heap[child + 1], scores[child + 1], heap[child], scores[child], rows):
                child += 1
            if _is_worse(document, score, heap[child], scores[child], rows):
                break
            heap[at], scores[at] = heap[child], scores[child]
            at = child
        heap[at], scores[at] = document, score
        return count
    at = count
    while at > 0:
        parent = (at - 1) // 2
        if not _is_worse(document, score, heap[parent], scores[parent], rows):
            break
        heap[at], scores[at] = heap[parent], scores[parent]
        at = parent
    heap[at], scores[at] = document, score
    return count + 1


@kernel
def _best_of_one(
    documents: np.ndarray,
    frequencies: np.ndarray,
    highest: np.ndarray,
    weight: np.float32,
    lengths: np.ndarray,
    average: np.float32,
    rows: np.ndarray,
    heap: np.ndarray,
    scores: np.ndarray,
) -> int:
    """Blocks whose largest score does not reach the worst of the best documents are passed over."""
    count = 0
    for block in range(len(highest)):
        if count == len(heap) and highest[block] * weight * _MORE < scores[0]:
            continue
        for i in range(block * BLOCK, min((block + 1) * BLOCK, len(documents))):
            document = documents[i]
            score = weight * score_of(frequencies[i], lengths[document], average)
            if count < len(heap) or score >= scores[0]:
                count = _keep(heap, scores, count, document, score, rows)
    return count


@kernel
def _best_of_any(
    documents: _Arrays,
    frequencies: _Arrays,
    array: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    highest: np.ndarray,
    blocks: np.ndarray,
    weights: np.ndarray,
    lengths: np.ndarray,
    average: np.float32,
    rows: np.ndarray,
    heap: np.ndarray,
    scores: np.ndarray,
) -> int:
    """Lists are ordered by their largest scores. Those whose sum cannot reach the worst of the best documents give no candidates."""
    lists = len(weights)
    most = np.zeros(lists, np.float32)
    for i in range(lists):
        for k in range(blocks[i], blocks[i + 1]):
            most[i] = max(most[i], highest[k] * weights[i])
    order = np.argsort(most)
    sums = np.zeros(lists + 1, np.float32)
    for i in range(lists):
        sums[i + 1] = (sums[i] + most[order[i]]) * _MORE
    at = starts.copy()
    count, essential = 0, 0
    end: Any = -1  # the documents up to this one were found to be worth a look
    while True:
        full = count == len(heap)
        while full and essential < lists and sums[essential + 1] < scores[0]:
            essential += 1
        document: Any = 0xFFFFFFFF + 1
        for i in range(essential, lists):
            own = order[i]
            if at[own] < ends[own]:
                document = min(document, np.int64(documents[array[own]][at[own]]))
        if document > 0xFFFFFFFF:
            return count
        if full and document > end:
            end = np.int64(0xFFFFFFFF)
            bound = sums[essential]
            for i in range(essential, lists):
                own = order[i]
                if at[own] < ends[own]:
                    block = (at[own] - starts[own]) // BLOCK
                    last = min(starts[own] + (block + 1) * BLOCK, ends[own]) - 1
                    bound += highest[blocks[own] + block] * weights[own]
                    end = min(end, np.int64(documents[array[own]][last]))
            if bound * _MORE < scores[0]:
                for i in range(essential, lists):
                    own = order[i]
                    at[own] = _seek(documents[array[own]], at[own], ends[own], end + 1)
                continue
        bound = sums[essential]
        for i in range(essential, lists):
            own = order[i]
            if at[own] < ends[own] and documents[array[own]][at[own]] == document:
                bound += weights[own] * score_of(frequencies[array[own]][at[own]], lengths[document], average)
        possible = not full or bound * _MORE >= scores[0]
        k = essential
        while possible and k > 0:
            k -= 1
            own = order[k]
            at[own] = _seek(documents[array[own]], at[own], ends[own], document)
            bound -= most[own]
            if at[own] < ends[own] and documents[array[own]][at[own]] == document:
                bound += weights[own] * score_of(frequencies[array[own]][at[own]], lengths[document], average)
            possible = not full or bound * _MORE * _MORE >= scores[0]
        if possible:
            score = np.float32(0)
            for i in range(lists):  # in the order of the query, as all scores are summed
                if at[i] < ends[i] and documents[array[i]][at[i]] == document:
                    score += weights[i] * score_of(frequencies[array[i]][at[i]], lengths[document], average)
            count = _keep(heap, scores, count, document, score, rows)
        for i in range(essential, lists):
            own = order[i]
            if at[own] < ends[own] and documents[array[own]][at[own]] == document:
                at[own] += 1


@kernel
def _best_of_all(
    documents: _Arrays,
    frequencies: _Arrays,
    array: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    highest: np.ndarray,
    blocks: np.ndarray,
    weights: np.ndarray,
    positions: _Arrays,
    first: _Arrays,
    places: np.ndarray,
    slop: int,
    lengths: np.ndarray,
    average: np.float32,
    rows: np.ndarray,
    heap: np.ndarray,
    scores: np.ndarray,
) -> int:
    """The shortest list gives the candidates: those whose score may be enough with the best of others in the same range of documents."""
    lists = len(weights)
    shortest = 0
    for i in range(lists):
        if ends[i] - starts[i] < ends[shortest] - starts[shortest]:
            shortest = i
    at = starts.copy()
    near = np.zeros(lists, np.int64)  # the blocks of lists where the range begins
    cursors = np.empty(lists, np.int64)
    count = 0
    others = np.float32(0)
    candidate: Any = starts[shortest]
    stop = ends[shortest]
    own = documents[array[shortest]]
    while candidate < stop:
        place = candidate - starts[shortest]
        full = count == len(heap)
        if place % BLOCK == 0:
            last = min(candidate + BLOCK, stop) - 1
            others = np.float32(0)
            for i in range(lists):
                if i != shortest:
                    near[i] = _block_of(documents[array[i]], starts[i], ends[i], near[i], own[candidate])
                    others += weights[i] * _highest_up_to(
                        documents[array[i]], starts[i], highest[blocks[i] : blocks[i + 1]], near[i], own[last]
                    )
            bound = highest[blocks[shortest] + place // BLOCK] * weights[shortest] + others
            if full and bound * _MORE < scores[0]:
                candidate += BLOCK
                continue
        document = own[candidate]
        if full:
            alone = weights[shortest] * score_of(frequencies[array[shortest]][candidate], lengths[document], average)
            if (alone + others) * _MORE < scores[0]:
                candidate += 1
                continue
        score = np.float32(0)
        there = True
        for i in range(lists):
            at[i] = candidate if i == shortest else _seek(documents[array[i]], at[i], ends[i], document)
            if at[i] == ends[i]:
                return count
            if documents[array[i]][at[i]] != document:
                there = False
                break
            score += weights[i] * score_of(frequencies[array[i]][at[i]], lengths[document], average)
        candidate += 1
        if not there or (full and score < scores[0]):
            continue
        if len(places) < 2 or _has_phrase(positions, first, frequencies, array, at, places, slop, cursors):
            count = _keep(heap, scores, count, document, score, rows)
    return count


@kernel
def _block_of(documents: np.ndarray, start: int, end: int, block: int, wanted: Any) -> int:
    """The first block of a list, from `block` on, that may have a document which is not below `wanted`."""
    while start + (block + 1) * BLOCK < end and documents[start + (block + 1) * BLOCK] <= wanted:
        block += 1
    return block


@kernel
def _highest_up_to(documents: np.ndarray, start: int, highest: np.ndarray, block: int, last: Any) -> np.float32:
    """The largest score of the blocks of a list from `block` to that of the document `last`."""
    found = highest[block]
    while block + 1 < len(highest) and documents[start + (block + 1) * BLOCK] <= last:
        block += 1
        found = max(found, highest[block])
    return np.float32(found)


@kernel
def _has_phrase(
    positions: _Arrays,
    first: _Arrays,
    frequencies: _Arrays,
    array: np.ndarray,
    at: np.ndarray,
    places: np.ndarray,
    slop: int,
    cursors: np.ndarray,
) -> bool:
    """Whether a document has each token at its place, or up to `slop` later than the one before; see `phrase`."""
    if slop > 0:
        return _has_loose_phrase(positions, first, frequencies, array, at, places, slop)
    for i in range(len(places)):
        cursors[i] = first[array[i]][at[i]]
    start = cursors[0]
    for k in range(start, start + frequencies[array[0]][at[0]]):
        begin = np.int64(positions[array[0]][k]) - places[0]
        follows = True
        for i in range(1, len(places)):
            wanted = begin + places[i]
            stop = first[array[i]][at[i]] + frequencies[array[i]][at[i]]
            while cursors[i] < stop and positions[array[i]][cursors[i]] < wanted:
                cursors[i] += 1
            if cursors[i] == stop:
                return False
            if positions[array[i]][cursors[i]] != wanted:
                follows = False
                break
        if follows:
            return True
    return False


@kernel
def _has_loose_phrase(
    positions: _Arrays, first: _Arrays, frequencies: _Arrays, array: np.ndarray, at: np.ndarray, places: np.ndarray, slop: int
) -> bool:
    """The same for tokens that may be farther apart."""
    earlier = np.empty(frequencies[array[0]][at[0]], np.int64)
    count = len(earlier)
    start = first[array[0]][at[0]]
    for k in range(count):
        earlier[k] = np.int64(positions[array[0]][start + k]) - places[0]
    for i in range(1, len(places)):
        reached = np.empty(frequencies[array[i]][at[i]], np.int64)
        low, found = 0, 0
        start = first[array[i]][at[i]]
        for k in range(len(reached)):
            position = np.int64(positions[array[i]][start + k]) - places[i]
            while low < count and earlier[low] < position - slop:
                low += 1
            if low < count and earlier[low] <= position:
                reached[found] = position
                found += 1
        if found == 0:
            return False
        earlier, count = reached, found
    return True
