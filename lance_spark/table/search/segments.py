"""Searching the segments of an index: by tasks, a partition is compared with all queries that search it, and thus read once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from lance_spark.errors import CorruptFileError, StorageError, UnsupportedFeatureError
from lance_spark.index.damaged import DamagedSegmentError
from lance_spark.index.vector.best import Best, Bounds, keep_nearest_of_each
from lance_spark.index.vector.codes import GROUP
from lance_spark.index.vector.index import VectorIndex, open_index
from lance_spark.index.vector.neighbors import Neighbors, joined
from lance_spark.index.vector.partition import Partition
from lance_spark.index.vector.rq_many import LEAST_QUERIES, Kept
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


@dataclass(frozen=True)
class Wanted:
    """What a search takes from an index for each query: `count` rows within bounds, the nearest ones by their codes.

    With `bound`, the range of the search ends there, where that of the codes does not: a search goes on to
    further partitions until `k` rows are nearer than it.
    """

    count: int
    within: Bounds = (None, None)
    bound: float | None = None


_CODES_ERR = 1e-5
"""Distances of vectors in an index and in the table may differ by this share, since they are rounded."""


def wanted_of(nearest: Nearest, metric: str, exact: bool) -> Wanted:
    """What a search takes from an index. `exact`: distances are computed from the vectors of these rows.

    Then they are the nearest rows above the lower bound. There is no upper one: estimates may be too large, and
    the rows come in their order.
    """
    least, bound = nearest.distance_range
    if not exact:
        return Wanted(nearest.k, nearest.distance_range)
    if least is not None:
        # Only under dot are there negative distances; estimates may be negative.
        is_bound = metric == "dot" or least > 0
        least = least - _CODES_ERR * abs(least) if is_bound else None
    return Wanted(nearest.k * (nearest.refine_factor or 1), (least, None), bound)


@dataclass(frozen=True)
class SearchedSegment:
    """An open segment that is searched."""

    segment: Segment
    index: VectorIndex

    def first_probes(self, nearest: Nearest) -> tuple[int, int]:
        """The least and the largest number of partitions that a query searches whatever is found."""
        return nearest.probes.bounds(self.index.metric, len(self.index.partitions))

    def probes_in_words(self, nearest: Nearest) -> str:
        """The same as one number, or as two with `to` between them."""
        least, most = self.first_probes(nearest)
        return str(least) if least == most else f"{least} to {most}"

    def most_probes(self, nearest: Nearest) -> int:
        """The number of partitions that may be searched."""
        return nearest.probes.most(len(self.index.partitions))

    def searches_all(self, nearest: Nearest) -> bool:
        """Whether every query searches all partitions that have rows."""
        return self.first_probes(nearest)[0] >= len(self.index.filled)

    def first_pairs(self, nearest: Nearest, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The partitions that queries search first, as pairs: the numbers of the queries, and of partitions.

        They are in the order of the queries, then of nearness.
        """
        index, there = self.index, len(self.index.partitions)
        compared = nearest.probes.compared(index.metric, there)
        chosen, distances = index.nearest_partitions(index.prepared(queries), compared)
        counts = nearest.probes.counts(distances, index.metric, there)
        is_first = np.arange(chosen.shape[1]) < counts[:, None]
        return np.nonzero(is_first)[0], chosen[is_first]

    def partition(self, number: int) -> Partition:
        """A partition. Raises DamagedSegmentError."""
        with _as_damage(self.segment):
            return self.index.partition(number)

    def rows(self, snapshot: Snapshot, number: int, partition: Partition, allowed: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The present addresses of the rows of a partition, which stay in memory, and a mask of those that exist and are `allowed`."""
        key = "rows of a partition", self.segment.index.uuid, self.segment.covered.serialize(), number
        with _as_damage(self.segment):
            addresses, exist = snapshot.locations.kept.get(
                key,
                lambda: segments_of(snapshot).present(self.segment, partition.rows),
                lambda both: both[0].nbytes + both[1].nbytes,
            )
        return addresses, exist if allowed is None else exist & _among(addresses, allowed)

    def walk(
        self,
        query: np.ndarray,
        number: int,
        partition: Partition,
        allowed: np.ndarray | None,
        wanted: Wanted,
        ef: int | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The places of the vectors that a search of the graph of a partition finds for a prepared query, and their distances.

        Only those that are `allowed` (None: all). If the partition has as many rows as are wanted, so many are found.
        """
        graph = partition.graph
        assert graph is not None
        there = len(partition.rows) if allowed is None else int(np.count_nonzero(allowed))
        least, bound = wanted.within
        if least is not None:
            # A graph leads to the nearest vectors, which are out of the range.
            return self.index.nearest(query, number, graph, partition, None, allowed)
        keep = min(max(ef or wanted.count + wanted.count // 2, wanted.count), there)
        near_before = -1
        while True:
            places, distances = self.index.nearest(query, number, graph, partition, keep, allowed)
            if len(places) < keep:
                # Edges do not lead to all vectors.
                return self.index.nearest(query, number, graph, partition, None, allowed)
            near = len(places) if bound is None else int(np.count_nonzero(distances < np.float32(bound)))
            if near >= wanted.count or near == near_before or keep == there:
                return places, distances
            near_before, keep = near, min(_WIDER * keep, there)


_WIDER = 4
"""If a search of a graph finds too few rows in the range, it is repeated and keeps so many times as many."""


@contextlib.contextmanager
def _as_damage(segment: Segment) -> Iterator[None]:
    """Turn errors of the segment's files into one that names it, so that the search goes on without it."""
    try:
        yield
    except (CorruptFileError, UnsupportedFeatureError, StorageError) as e:
        raise DamagedSegmentError(str(e), segment.index) from e


def search_together(
    snapshot: Snapshot,
    segments: Sequence[SearchedSegment],
    nearest: Nearest,
    wanted: Wanted,
    allowed: np.ndarray | None,
    best: Sequence[Best],
    runner: Runner,
) -> list[int]:
    """Add the rows of the segments that are nearest to each query to its `best`; returns the numbers of queries that need a search alone.

    These are queries that must search more partitions, since less than k rows were found in the first ones, and those of which several rows
    are at the last distance: which of them are kept follows from the order in which a search meets them, see `Heap`.
    """
    rows = sum(int(np.sum(s.index.partitions.stops - s.index.partitions.starts)) for s in segments)
    room = min(wanted.count + 1, rows)  # one more row tells whether several are at the last distance
    at_once = max(_KEPT_BYTES // (_ROW_BYTES * max(room, 1)), 1)
    all_searched = all(s.searches_all(nearest) for s in segments)
    alone: list[int] = []
    for start in range(0, len(best), at_once):
        some = range(start, min(start + at_once, len(best)))
        tasks = [
            PairsTask(Pinned(snapshot), s.segment, nearest, wanted, *pairs, allowed, room)
            for s in segments
            for pairs in _pairs(s, nearest, some, -(-runner.cores // len(segments)))
        ]
        found = joined(runner.run(tasks, nearest_of_pairs)).nearest(room)
        unsettled = unsettled_queries(found, some, nearest.k, wanted, all_searched)
        settled = found.at((found.ranks() < wanted.count) & ~np.isin(found.queries, unsettled))
        for number, own in settled.of_each().items():
            best[number].take(own.distances, own.addresses)
        alone += unsettled.tolist()
    return alone


def unsettled_queries(found: Neighbors, queries: range, k: int, wanted: Wanted, all_searched: bool) -> np.ndarray:
    """The numbers of the queries that need a search alone; see `search_together`.

    `found` are the nearest rows of each query, one more than are wanted if there are so many. `all_searched`: there are no
    more partitions.
    """
    is_last = found.ranks() == wanted.count - 1
    is_more = found.ranks() == wanted.count
    both = np.isin(found.queries[is_last], found.queries[is_more])
    has_ties = found.distances[is_last][both] == found.distances[is_more]
    unsettled: np.ndarray = found.queries[is_more][has_ties]
    if all_searched:
        return unsettled
    near = found if wanted.bound is None else found.at(found.distances < np.float32(wanted.bound))
    counts = np.bincount(near.queries - queries.start, minlength=len(queries))
    return np.union1d(unsettled, queries.start + np.flatnonzero(counts < k))


def _pairs(searched: SearchedSegment, nearest: Nearest, queries: range, parts: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The numbers of the first partitions of a segment for each query, and those of the queries: pairs in the order of the partitions.

    They are cut into at most `parts` with about as much work; all pairs of a partition are in one.
    """
    index = searched.index
    numbers, chosen = searched.first_pairs(nearest, nearest.queries[queries.start : queries.stop])
    order = np.argsort(chosen, kind="stable")
    partitions, numbers = chosen[order], queries.start + numbers[order]
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
    wanted: Wanted
    partitions: np.ndarray
    queries: np.ndarray
    allowed: np.ndarray | None
    room: int


def open_segment(snapshot: Snapshot, segment: Segment, nearest: Nearest) -> SearchedSegment:
    """The segment, as this process may have opened it before. Raises DamagedSegmentError."""
    with _as_damage(segment):
        index = open_index(segments_of(snapshot).files(segment, nearest.field))
        return SearchedSegment(segment, index.in_mode(nearest.approx_mode))


def nearest_of_pairs(task: PairsTask) -> Neighbors:
    """The rows that a task finds."""
    snapshot, nearest = task.version.snapshot, task.nearest
    searched = open_segment(snapshot, task.segment, nearest)
    index = searched.index
    numbers, own = np.unique(task.queries, return_inverse=True)
    queries, kept = index.prepared(nearest.queries[numbers]), _Kept(len(numbers), task.room, task.wanted.within)
    forms = index.forms(queries)
    many = index.many(forms)
    for which in _by_partition(task.partitions, own, index.apart(queries, task.partitions, own) if many is not None else None):
        number, of = int(task.partitions[which[0]]), own[which]
        partition = searched.partition(number)
        addresses, exist = searched.rows(snapshot, number, partition, task.allowed)
        if partition.graph is not None:
            allowed = None if exist.all() else exist
            for query in of:
                places, distances = searched.walk(queries[query], number, partition, allowed, task.wanted, nearest.ef)
                kept.add(distances[:, None], addresses[places], np.arange(len(places)), np.array([query]))
            continue
        if many is not None and len(of) >= LEAST_QUERIES:
            index.add_nearest(many, forms, number, partition.codes, addresses, np.flatnonzero(exist), of, kept.kept)
            continue
        for start in range(0, len(of), _QUERIES):
            some = of[start : start + _QUERIES]
            block = max(_BLOCK_BYTES // (4 * len(some)) // GROUP, 1) * GROUP
            for first in range(0, len(addresses), block):
                there = slice(first, first + block)
                distances = index.distances(forms[some], number, partition.codes.rows(first, first + block))
                kept.add(distances, addresses[there], np.flatnonzero(exist[there]), some)
    return kept.found(numbers)


def _by_partition(partitions: np.ndarray, queries: np.ndarray, apart: np.ndarray | None) -> Iterator[np.ndarray]:
    """The places of pairs of a partition and a query, those of one partition together.

    With the distances of the pairs, those of each query and its nearest partition come first: its nearest rows are mostly there, so
    that few others need to be compared closely.
    """
    parts = [np.arange(len(partitions))]
    if apart is not None:
        order = np.lexsort((apart, queries))
        is_first = np.zeros(len(partitions), np.bool_)
        is_first[order[np.diff(queries[order], prepend=-1) > 0]] = True
        parts = [np.flatnonzero(is_first), np.flatnonzero(~is_first)]
    for part in parts:
        if len(part):
            yield from np.split(part, np.flatnonzero(np.diff(partitions[part])) + 1)


class _Kept:
    """The nearest rows of each query, at most `room`, with their distances, in the order of a heap."""

    def __init__(self, queries: int, room: int, within: Bounds) -> None:
        self._least, self._bound = (float(np.float32(np.nan if bound is None else bound)) for bound in within)
        self._distances = np.empty((queries, room), np.float32)
        self._rows = np.empty((queries, room), np.uint64)
        self._counts = np.zeros(queries, np.int64)

    def add(self, distances: np.ndarray, rows: np.ndarray, which: np.ndarray, queries: np.ndarray) -> None:
        """Add those of the rows at `which` with their distances, a row for each, to the `queries`, a column for each."""
        keep_nearest_of_each(distances, rows, which, self._least, self._bound, self._distances, self._rows, self._counts, queries)

    @property
    def kept(self) -> Kept:
        """The same, for those that compare and keep at once."""
        return Kept(self._least, self._bound, self._distances, self._rows, self._counts)

    def found(self, numbers: np.ndarray) -> Neighbors:
        """The rows; the queries have these numbers."""
        there = np.arange(self._distances.shape[1]) < self._counts[:, None]
        return Neighbors(np.repeat(numbers, self._counts), self._distances[there], self._rows[there])


def _among(addresses: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """A mask of the addresses that are among the `allowed` ones, which ascend."""
    if not len(allowed):
        return np.zeros(len(addresses), np.bool_)
    at = np.minimum(np.searchsorted(allowed, addresses), len(allowed) - 1)
    return np.asarray(allowed[at] == addresses)
