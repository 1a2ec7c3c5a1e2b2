"""HNSW: a graph of the vectors of each partition, whose edges lead to near ones; higher levels have fewer vectors.

`index.idx` has a row for each vector of each level of a partition, level by level: its number in the partition and those of its neighbours.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.index.vector.compared import Compared, far, far_of_each
from lance_spark.kernels.kernel import kernel

COLUMNS = ("__vector_id", "__neighbors")
NO_VECTOR = -1
"""A search of a graph leaves out none of its vectors."""

_FEW = 10
"""A graph is not used if less than one in so many of its vectors may be found: its paths lead through all others."""


@dataclass(frozen=True)
class Level:
    """The vectors of a level, ascending, and the neighbours of each: those of the vector at i are from `first[i]` to `first[i + 1]`."""

    ids: np.ndarray
    first: np.ndarray
    neighbours: np.ndarray


@dataclass(frozen=True)
class Graph:
    """The levels of a partition, the lowest first, which has every vector, and the vector where a search begins."""

    levels: Sequence[Level]
    entry: int

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return sum(level.ids.nbytes + level.first.nbytes + level.neighbours.nbytes for level in self.levels)

    def nearest(
        self,
        compared: Compared,
        keep: int,
        allowed: np.ndarray | None,
        left_out: int = NO_VECTOR,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The vectors that a search finds which keeps so many of them, and their distances (float32).

        Only those that are `allowed` (None: all). The search is as if the vector `left_out` were not in
        the graph, but for the edges that others have because of it.
        """
        own = compared.how, compared.numbers, compared.query, compared.table
        if allowed is not None and np.count_nonzero(allowed) * _FEW < len(allowed):
            return compared_one_by_one(compared, allowed)
        at = self.entry
        for level in reversed(self.levels[1:]):
            at = int(descend(*own, level.ids, level.first, level.neighbours, at, left_out))
        base = self.levels[0]
        mask = np.ones(len(base.ids), np.bool_) if allowed is None else allowed
        found, distances = np.empty(keep, np.int64), np.empty(keep)
        count = walk(*own, base.first, base.neighbours, at, mask, left_out, found, distances)
        return found[:count], compared.distances(distances[:count])


def compared_one_by_one(compared: Compared, allowed: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The vectors that are `allowed` (None: all), and their distances (float32)."""
    rows = np.arange(len(compared.numbers)) if allowed is None else np.flatnonzero(allowed)
    distances = np.empty(len(rows))
    far_of_each(compared.how, compared.numbers, compared.query, compared.table, rows, distances)
    return rows, compared.distances(distances)


def graph(batch: pa.RecordBatch, bounds: Sequence[int], entry: int, vectors: int, what: str) -> Graph:
    """The graph of a partition with so many vectors from its rows; `bounds` are the first rows of the levels, and the last (exclusive).

    Raises CorruptFileError if a number is not that of a vector.
    """
    ids, lists = batch.column(0), batch.column(1)
    good = ids.type == pa.uint32() and pa.types.is_list(lists.type) and lists.type.value_type == pa.uint32()
    if not good or ids.null_count or lists.null_count or lists.flatten().null_count:
        raise CorruptFileError(f"{what}: expected numbers of vectors and lists of them without nulls, found {ids.type} and {lists.type}")
    numbers, offsets = ids.to_numpy(), lists.offsets.to_numpy().astype(np.int64)
    neighbours = lists.flatten().to_numpy()
    offsets -= offsets[0] if len(offsets) else 0
    levels = []
    for start, stop in pairwise(bounds):
        if not 0 <= start <= stop <= len(numbers):
            raise CorruptFileError(f"{what}: the levels {bounds} do not divide {len(numbers)} rows")
        levels.append(_level(numbers[start:stop], offsets[start : stop + 1], neighbours))
    too_large = any(len(level.ids) and level.ids[-1] >= vectors for level in levels)
    if not levels or len(levels[0].ids) != vectors or too_large or (neighbours >= vectors).any() or not 0 <= entry < vectors:
        raise CorruptFileError(f"{what}: expected a graph of {vectors} vectors, found other numbers in it")
    if any((level.ids[1:] <= level.ids[:-1]).any() for level in levels):
        raise CorruptFileError(f"{what}: a vector is twice in a level of the graph")
    return Graph([level for level in levels if len(level.ids)], entry)


def _level(ids: np.ndarray, offsets: np.ndarray, neighbours: np.ndarray) -> Level:
    own = neighbours[offsets[0] : offsets[-1]]
    if (ids[1:] > ids[:-1]).all():
        return Level(ids, offsets - offsets[0], own)
    order, counts = np.argsort(ids, kind="stable"), np.diff(offsets)
    first = np.concatenate([[0], np.cumsum(counts[order])])
    places = np.repeat((offsets[:-1] - offsets[0])[order] - first[:-1], counts[order]) + np.arange(first[-1])
    return Level(ids[order], first, own[places])


@kernel
def descend(
    how: int,
    numbers: np.ndarray,
    query: np.ndarray,
    table: np.ndarray,
    ids: np.ndarray,
    first: np.ndarray,
    neighbours: np.ndarray,
    start: int,
    left_out: int,
) -> np.int64:
    """The vector of a level to which no neighbour is nearer, from `start`; `start` if the level lacks it.

    The vector `left_out` is not met. `ids` (uint32) are the vectors of the level, ascending; see `Level` and `Compared` for the others.
    """
    at = np.int64(start)
    nearest = far(how, numbers, query, table, at)
    while True:
        place = np.searchsorted(ids, at)
        if place == len(ids) or ids[place] != at:
            return at
        before = nearest
        for i in range(first[place], first[place + 1]):
            if neighbours[i] == left_out:
                continue
            other = far(how, numbers, query, table, neighbours[i])
            if other < nearest:
                nearest, at = other, np.int64(neighbours[i])
        if not nearest < before:
            return at


@kernel
def walk(
    how: int,
    numbers: np.ndarray,
    query: np.ndarray,
    table: np.ndarray,
    first: np.ndarray,
    neighbours: np.ndarray,
    start: int,
    allowed: np.ndarray,
    left_out: int,
    found: np.ndarray,
    distances: np.ndarray,
) -> int:
    """Store in `found` (int64) the nearest vectors that are `allowed`, as many as it has room for, with their `distances` (float64).

    Returns their number. From `start`, the walk goes on from the nearest vector that was met, until that is farther than all that are kept:
    only vectors that it meets are compared with the query. It does not meet the one `left_out`, unless it starts there.
    `neighbours` (uint32) of vector i are from `first[i]` to `first[i + 1]`; all are numbers of vectors, which have a mask `allowed`.
    See `Compared` for the others.
    """
    keep = len(found)
    met = np.zeros(len(allowed), np.bool_)
    met[start] = True
    if left_out >= 0:
        met[left_out] = True
    begin = far(how, numbers, query, table, start)
    to_visit = [(begin, np.int64(start))]
    kept = [(-begin, np.int64(start))]
    if not allowed[start]:
        kept.clear()
    while len(to_visit) > 0:
        near, at = heapq.heappop(to_visit)
        if len(kept) == keep and near > -kept[0][0]:
            break
        for place in range(first[at], first[at + 1]):
            other = np.int64(neighbours[place])
            if met[other]:
                continue
            met[other] = True
            away = far(how, numbers, query, table, other)
            if len(kept) < keep or away <= -kept[0][0]:
                heapq.heappush(to_visit, (away, other))
                if allowed[other]:
                    heapq.heappush(kept, (-away, other))
                    if len(kept) > keep:
                        heapq.heappop(kept)
    for i in range(len(kept)):
        distances[i], found[i] = -kept[i][0], kept[i][1]
    return len(kept)
