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
from lance_spark.index.vector.codes import GROUP
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
_BLOCK_BYTES = 2 << 20
"""About so many bytes of distances are computed at once, which stay in the processor's caches."""
_QUERIES = 64
"""So many queries are compared with a block of rows, if there are as many: it takes as long for a few."""


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
        found = joined(runner.run(tasks, nearest_of_pairs))
        (numbers, distances, addresses), left = settled(found, some, nearest.k, best[0].count, room, all_searched)
        bounds = np.searchsorted(numbers, [*some, some.stop])
        for number in np.unique(numbers).tolist():
            own = slice(bounds[number - start], bounds[number - start + 1])
            best[number].add(distances[own], addresses[own])
        alone += left
    return alone


Triples = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Numbers of queries (int64), distances (float32) and rows (uint64)."""


def joined(parts: Sequence[Triples]) -> Triples:
    """Those of all parts."""
    nothing = np.empty(0, np.int64), np.empty(0, np.float32), np.empty(0, np.uint64)
    numbers, distances, rows = (np.concatenate(own) for own in zip(nothing, *parts))
    return numbers, distances, rows


def settled(found: Triples, queries: range, k: int, count: int, room: int, all_searched: bool) -> tuple[Triples, list[int]]:
    """Of what tasks have found, at most `count` nearest rows of each query, in the order of queries; and which need a search alone.

    Tasks have found the nearest `room` rows. `all_searched`: there are no more partitions. See `search_together`.
    """
    numbers, distances, rows = nearest_of_each(found, room)
    counts = np.bincount(numbers - queries.start, minlength=len(queries))
    last = np.cumsum(counts) - 1
    alone = counts < k if not all_searched else np.zeros(len(queries), np.bool_)
    more = np.flatnonzero(counts > count)
    alone[more] |= distances[last[more] - 1] == distances[last[more]]
    kept = (np.arange(len(numbers)) - np.repeat(last - counts + 1, counts) < count) & ~np.repeat(alone, counts)
    return (numbers[kept], distances[kept], rows[kept]), (queries.start + np.flatnonzero(alone)).tolist()


def nearest_of_each(found: Triples, most: int) -> Triples:
    """At most so many rows of each query, the nearest ones, of those at one distance the ones with the lowest addresses."""
    numbers, distances, rows = found
    order = np.lexsort((rows, distances, numbers))
    numbers, distances, rows = numbers[order], distances[order], rows[order]
    begins = np.flatnonzero(np.diff(numbers, prepend=-1))
    rank = np.arange(len(numbers)) - np.repeat(begins, np.diff(np.append(begins, len(numbers))))
    return numbers[rank < most], distances[rank < most], rows[rank < most]


def _pairs(searched: SearchedSegment, nearest: Nearest, queries: range, parts: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The numbers of the first partitions of a segment for each query, and those of the queries: pairs in the order of the partitions.

    They are cut into at most `parts` with about as much work; all pairs of a partition are in one.
    """
    index, count = searched.index, searched.first_probes(nearest)
    chosen = index.nearest_partitions(index.prepared(nearest.queries[queries.start : queries.stop]), count)
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


def nearest_of_pairs(task: PairsTask) -> Triples:
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
                kept.add(distances[:, None], addresses[places], np.arange(len(places)), np.array([query]))
            continue
        for start in range(0, len(of), _QUERIES):
            some = of[start : start + _QUERIES]
            block = max(_BLOCK_BYTES // (4 * len(some)) // GROUP, 1) * GROUP
            for first in range(0, len(addresses), block):
                there = slice(first, first + block)
                distances = index.distances(forms[some], number, partition.codes.rows(first, first + block))
                kept.add(distances, addresses[there], np.flatnonzero(exist[there]), some)
    return kept.found(numbers)


class _Kept:
    """The nearest rows of each query, at most `room`, with their distances, in the order of a heap."""

    def __init__(self, queries: int, room: int, within: tuple[float | None, float | None]) -> None:
        self._least, self._bound = (float(np.float32(np.nan if bound is None else bound)) for bound in within)
        self._distances = np.empty((queries, room), np.float32)
        self._rows = np.empty((queries, room), np.uint64)
        self._counts = np.zeros(queries, np.int64)

    def add(self, distances: np.ndarray, rows: np.ndarray, which: np.ndarray, queries: np.ndarray) -> None:
        """Add those of the rows at `which` with their distances, a row for each, to the `queries`, a column for each."""
        keep_nearest_of_each(distances, rows, which, self._least, self._bound, self._distances, self._rows, self._counts, queries)

    def found(self, numbers: np.ndarray) -> Triples:
        """The numbers of the queries, the distances and the rows."""
        there = np.arange(self._distances.shape[1]) < self._counts[:, None]
        return np.repeat(numbers, self._counts), self._distances[there], self._rows[there]


def _among(addresses: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """A mask of the addresses that are among the `allowed` ones, which ascend."""
    if not len(allowed):
        return np.zeros(len(addresses), np.bool_)
    at = np.minimum(np.searchsorted(allowed, addresses), len(allowed) - 1)
    return np.asarray(allowed[at] == addresses)
