"""Searching the segments of an index: by tasks, a partition is compared with all queries that search it, and thus read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from lance_spark.errors import CorruptFileError, StorageError, UnsupportedFeatureError
from lance_spark.index.damaged import DamagedSegmentError
from lance_spark.index.vector.best import Best, keep_nearest_of_each
from lance_spark.index.vector.index import VectorIndex, open_index
from lance_spark.index.vector.partition import Partition
from lance_spark.storage.store import Store
from lance_spark.table.mem_wal.version import with_rows
from lance_spark.table.scan.indexed import Segment, segments_of
from lance_spark.table.scan.runner import Runner
from lance_spark.table.search.nearest import Nearest
from lance_spark.table.versions.snapshot import LogRows, Snapshot, open_pinned

_KEPT_BYTES = 64 << 20
"""The best rows of the queries that are searched for at once take at most so many bytes; each takes `_ROW_BYTES`."""
_ROW_BYTES = 12
_BLOCK_BYTES = 1 << 20
"""So many bytes of distances are computed at once, which stay in the processor's caches."""


_OPEN_VERSIONS = 4
"""A process keeps so many versions with what was read of their indexes, each within `metadata.locations.KEPT_BYTES` of memory."""


@dataclass(frozen=True)
class Pinned:
    """A version of a table that has been written."""

    snapshot: Snapshot

    def __reduce__(self) -> tuple[Callable[..., Pinned], tuple[object, ...]]:
        own = self.snapshot
        return _unpickled, (own.log, own.store, own.version, own.identity, own.allow_other_stores, own.verify_checksums)


def _unpickled(log: LogRows | None, *version: Any) -> Pinned:
    return Pinned(opened(*version) if log is None else _opened_with(log, *version))


@lru_cache(maxsize=_OPEN_VERSIONS)
def _opened_with(log: LogRows, *version: Any) -> Snapshot:
    """The version with rows of its write-ahead log."""
    return with_rows(opened(*version), log)


@lru_cache(maxsize=_OPEN_VERSIONS)
def opened(store: Store, version: int, identity: str, allow_other_stores: bool, verify_checksums: bool) -> Snapshot:
    """The version of a table that had the number and the identity, which this process may have opened before."""
    return replace(open_pinned(store, version, identity, allow_other_stores), verify_checksums=verify_checksums)


_PROBES = 20
_ROWS_PER_PROBE = 50
"""Without nprobes, so many partitions of a segment are searched, and one more for so many rows: at least as many as pylance searches."""


@dataclass(frozen=True)
class SearchedSegment:
    """An open segment that is searched."""

    segment: Segment
    index: VectorIndex

    def first_probes(self, nearest: Nearest) -> int:
        """The number of partitions that are searched at first: more are searched if they have less than k rows."""
        most = self.most_probes(nearest)
        return min(nearest.minimum_nprobes or _PROBES + nearest.k // _ROWS_PER_PROBE, most)

    def partition(self, number: int) -> Partition:
        """A partition. Raises DamagedSegmentError."""
        try:
            return self.index.partition(number)
        except (CorruptFileError, UnsupportedFeatureError, StorageError) as e:
            raise DamagedSegmentError(str(e), self.segment.index) from e

    def rows(self, snapshot: Snapshot, number: int, partition: Partition, allowed: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The present addresses of the rows of a partition, which stay in memory, and a mask of those that exist and are `allowed`."""
        key = "rows of a partition", self.segment.index.uuid, self.segment.covered.serialize(), number
        try:
            addresses, exist = snapshot.locations.kept.get(
                key, lambda: segments_of(snapshot).present(self.segment, partition.rows), lambda both: both[0].nbytes + both[1].nbytes
            )
        except (CorruptFileError, UnsupportedFeatureError, StorageError) as e:
            raise DamagedSegmentError(str(e), self.segment.index) from e
        return addresses, exist if allowed is None else exist & _among(addresses, allowed)

    def walk(
        self, nearest: Nearest, query: np.ndarray, number: int, partition: Partition, allowed: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The places of the vectors that a search of the graph of a partition finds for a prepared query, and their distances."""
        assert partition.graph is not None
        wanted = nearest.k * (nearest.refine_factor or 1)
        keep = min(max(nearest.ef or wanted + wanted // 2, wanted), len(partition.rows))
        return self.index.nearest(query, number, partition.graph, partition, keep, allowed)

    def most_probes(self, nearest: Nearest) -> int:
        """The number of partitions that may be searched."""
        there = len(self.index.partitions)
        return min(nearest.maximum_nprobes or there, there)


def search_together(
    snapshot: Snapshot,
    segments: Sequence[SearchedSegment],
    nearest: Nearest,
    allowed: np.ndarray | None,
    best: Sequence[Best],
    runner: Runner,
) -> list[int]:
    """Add the rows of the segments that are nearest to each query to its `best`; returns the numbers of queries that need a search alone.

    These are queries that must search more partitions, since less than k rows were found in the first ones, and those of which several rows
    are at the last distance: which of them are kept follows from the order in which a search meets them, see `Heap`.
    """
    rows = sum(int(np.sum(s.index.partitions.stops - s.index.partitions.starts)) for s in segments)
    room = min(best[0].count + 1, rows)  # one more row tells whether several are at the last distance
    at_once = max(_KEPT_BYTES // (_ROW_BYTES * max(room, 1)), 1)
    all_searched = all(s.first_probes(nearest) == len(s.index.partitions) for s in segments)
    alone: list[int] = []
    for start in range(0, len(best), at_once):
        some = range(start, min(start + at_once, len(best)))
        tasks = [
            PairsTask(Pinned(snapshot), s.segment, nearest, *pairs, allowed, room, best[0].within)
            for s in segments
            for pairs in _pairs(s, nearest, some, -(-runner.cores // len(segments)))
        ]
        alone += add_or_leave(runner.run(tasks, nearest_of_pairs), some, nearest.k, room, all_searched, best)
    return alone


def add_or_leave(
    found: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], queries: range, k: int, room: int, all_searched: bool, best: Sequence[Best]
) -> list[int]:
    """Add what tasks have found for each of the queries to its `best`; returns the numbers of those that need a search alone.

    `found` are numbers of queries, distances and rows. `all_searched`: there are no more partitions. See `search_together`.
    """
    alone: list[int] = []
    for number, distances, rows in _merged(found, queries, room):
        own = best[number]
        if len(rows) < k and not all_searched:
            alone.append(number)
        elif len(rows) <= own.count:
            own.add(distances, rows)
        elif distances[-2] < distances[-1]:
            own.add(distances[:-1], rows[:-1])
        else:
            alone.append(number)
    return alone


def _pairs(searched: SearchedSegment, nearest: Nearest, queries: range, parts: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The numbers of the first partitions of a segment for each query, and those of the queries: pairs in the order of the partitions.

    They are cut into at most `parts` with about as much work; all pairs of a partition are in one.
    """
    index, count = searched.index, searched.first_probes(nearest)
    chosen = np.stack([index.nearest_partitions(query)[:count] for query in index.prepared(nearest.queries[queries.start : queries.stop])])
    order = np.argsort(chosen, axis=None, kind="stable")
    partitions, numbers = chosen.ravel()[order], queries.start + order // max(chosen.shape[1], 1)
    work = np.cumsum((index.partitions.stops - index.partitions.starts)[partitions])
    if not len(work):
        return
    ends = np.searchsorted(work, work[-1] * np.arange(1, parts) / parts)
    cuts = np.unique(np.searchsorted(partitions, partitions[ends]))
    yield from zip(np.split(partitions, cuts[cuts > 0]), np.split(numbers, cuts[cuts > 0]))


@dataclass(frozen=True)
class PairsTask:
    """Some partitions of a segment and the queries that search them, as pairs; of each query, `room` rows are wanted."""

    version: Pinned
    segment: Segment
    nearest: Nearest
    partitions: np.ndarray
    queries: np.ndarray
    allowed: np.ndarray | None
    room: int
    within: tuple[float | None, float | None]


def open_segment(snapshot: Snapshot, segment: Segment, nearest: Nearest) -> SearchedSegment:
    """The segment, as this process may have opened it before. Raises DamagedSegmentError."""
    try:
        return SearchedSegment(segment, open_index(segments_of(snapshot).files(segment, nearest.field)))
    except (CorruptFileError, UnsupportedFeatureError, StorageError) as e:
        raise DamagedSegmentError(str(e), segment.index) from e


def nearest_of_pairs(task: PairsTask) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The numbers of the queries, the distances and the rows that a task finds."""
    snapshot, nearest = task.version.snapshot, task.nearest
    searched = open_segment(snapshot, task.segment, nearest)
    index = searched.index
    numbers, own = np.unique(task.queries, return_inverse=True)
    queries, kept = index.prepared(nearest.queries[numbers]), _Kept(len(numbers), task.room, task.within)
    forms = index.forms(queries)
    for which in np.split(np.arange(len(own)), np.flatnonzero(np.diff(task.partitions)) + 1):
        number, of = int(task.partitions[which[0]]), own[which]
        partition = searched.partition(number)
        addresses, exist = searched.rows(snapshot, number, partition, task.allowed)
        if partition.graph is not None:
            allowed = None if exist.all() else exist
            for query in of:
                places, distances = searched.walk(nearest, queries[query], number, partition, allowed)
                kept.add(distances[None], addresses[places], np.array([query]))
            continue
        block = max(_BLOCK_BYTES // (4 * len(addresses)), 1)
        for start in range(0, len(of), block):
            some = of[start : start + block]
            distances = index.distances(forms[some], number, partition)
            if not exist.all():
                distances[:, ~exist] = np.nan
            kept.add(distances, addresses, some)
    return kept.found(numbers)


class _Kept:
    """The nearest rows of each query, at most `room`, with their distances, in the order of a heap."""

    def __init__(self, queries: int, room: int, within: tuple[float | None, float | None]) -> None:
        self._least, self._bound = (float(np.float32(np.nan if bound is None else bound)) for bound in within)
        self._distances = np.empty((queries, room), np.float32)
        self._rows = np.empty((queries, room), np.uint64)
        self._counts = np.zeros(queries, np.int64)

    def add(self, distances: np.ndarray, rows: np.ndarray, queries: np.ndarray) -> None:
        """Add rows with their distances to each of the `queries`."""
        keep_nearest_of_each(distances, rows, self._least, self._bound, self._distances, self._rows, self._counts, queries)

    def found(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The numbers of the queries, the distances and the rows."""
        there = np.arange(self._distances.shape[1]) < self._counts[:, None]
        return np.repeat(numbers, self._counts), self._distances[there], self._rows[there]


def _merged(
    found: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], queries: range, room: int
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Each query, its `room` smallest distances, ascending, and the rows of all tasks that have them."""
    empty = np.empty(0, np.int64), np.empty(0, np.float32), np.empty(0, np.uint64)
    numbers, distances, rows = (np.concatenate(parts) for parts in zip(empty, *found))
    order = np.lexsort((distances, numbers))
    bounds = np.searchsorted(numbers[order], np.arange(queries.start, queries.stop + 1))
    for number, start, stop in zip(queries, bounds[:-1].tolist(), bounds[1:].tolist()):
        own = order[start : min(stop, start + room)]
        yield number, distances[own], rows[own]


def _among(addresses: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """A mask of the addresses that are among the `allowed` ones, which ascend."""
    if not len(allowed):
        return np.zeros(len(addresses), np.bool_)
    at = np.minimum(np.searchsorted(allowed, addresses), len(allowed) - 1)
    return np.asarray(allowed[at] == addresses)
