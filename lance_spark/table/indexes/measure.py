"""Measuring what searches of a segment of a vector index find, with vectors of its own rows as queries."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np

from lance_spark.errors import CorruptFileError, StorageError, UnsupportedFeatureError
from lance_spark.index.damaged import DamagedSegmentError
from lance_spark.index.kinds import kind_of
from lance_spark.metadata.fragment import IndexMetadata
from lance_spark.table.build.index_coverage import SYSTEM_INDEXES
from lance_spark.table.indexes.segment import Definition
from lance_spark.table.scan.runner import Here
from lance_spark.table.scan.stages import Results
from lance_spark.table.versions.snapshot import Snapshot

if TYPE_CHECKING:
    from lance_spark.index.vector.measured import Measured, Setting, Shape
    from lance_spark.table.search.index_search import IndexSearch
    from lance_spark.table.search.nearest import Nearest
    from lance_spark.table.search.segments import SearchedSegment

_LOG = logging.getLogger(__name__)

_QUERIES, _FEWEST_QUERIES = 128, 32
_COMPARISONS = 1 << 27
"""The most comparisons of rows with queries, unless the fewest queries need more."""
_LEAST_ROWS = 100
"""Smaller segments are not measured."""
_CANDIDATES = 1000
"""The rows near each query that are ranked by their codes."""
_SPARE = 50
"""Rows at one distance with the last one are equally near: so many further ones are known."""
_EQUAL = 1e-5
"""Distances that differ by a smaller share are equal."""

_FACTORS = (1, 2, 3, 5, 10, 20, 50, 100)
_EFS = (15, 24, 40, 64, 100, 150, 250, 400, 640, 1000)
_ENOUGH = 0.999
"""No setting with a higher recall is looked for."""

_ROW_NS, _BYTE_NS, _WALK_NS, _READ_NS = 5.0, 0.4, 3000.0, 14000.0
"""What it takes, roughly, to compare a row by its codes, and for each byte of them; to keep a row while a graph is walked;
and to read a vector. Settings are ordered by this.
"""


@dataclass(frozen=True)
class Measurement:
    """What was measured of the segment with this uuid."""

    uuid: bytes
    measured: Measured | None


@dataclass(frozen=True)
class MeasureTask:
    """Measures a segment, which may not be in the version yet. It writes nothing: its `uuid` is of no folder."""

    definition: Definition
    snapshot: Snapshot
    segment: IndexMetadata
    uuid: bytes = field(default_factory=lambda: uuid4().bytes)


def measure_tasks(snapshot: Snapshot, definition: Definition, segments: Sequence[IndexMetadata]) -> list[MeasureTask]:
    """The tasks of `measure` for those of the segments that can be measured: lists of vectors are searched without an index."""
    from lance_spark.index.vector.vectors import vector_type

    if not definition.kind.trained or vector_type(definition.field.type)[1]:
        return []
    return [MeasureTask(definition, snapshot, segment) for segment in segments if segment.files]


def measured_segments(segments: Sequence[IndexMetadata], results: Results) -> list[IndexMetadata]:
    """The segments, whose details tell what was measured of each; those that could not be measured tell nothing."""
    from lance_spark.index.vector.measured import with_measured

    told = {r.uuid: r.measured for stage in results for r in stage if isinstance(r, Measurement)}

    def is_of_vectors(segment: IndexMetadata) -> bool:
        kind = kind_of(segment.details_type, segment.details)
        return kind is not None and kind.trained

    return [replace(s, details=with_measured(s.details, told.get(s.uuid))) if is_of_vectors(s) else s for s in segments]


def measure(task: MeasureTask) -> Measurement:
    """Measure a segment: nothing, with a warning, if it cannot be read."""
    try:
        return Measurement(task.segment.uuid, _measured(task))
    except (CorruptFileError, UnsupportedFeatureError, StorageError, DamagedSegmentError) as e:
        _LOG.warning("%s: a segment of the index %r is not measured: %s", task.snapshot, task.definition.name, e)
        return Measurement(task.segment.uuid, None)


def _measured(task: MeasureTask) -> Measured | None:
    from lance_spark.index.vector.measured import LEVELS, Measured, measured_in

    snapshot = _with_segment(task.snapshot, task.segment)
    asked = _asked(task.definition)
    search = _opened(snapshot, asked)
    if search is None:
        return None
    sample = _sampled(search, asked)
    if sample is None:
        return None
    trial = _Trial(search, replace(asked, queries=sample.vectors), sample.addresses)
    before, shape = measured_in(task.segment.details), trial.shape
    trained = shape if before is None else before.trained
    levels = {k: tuple(settings) for k in LEVELS if (settings := trial.settings(k))}
    (searched,) = search.segments
    rows = sum(searched.segment.sizes.values())
    return Measured(rows, len(searched.index.partitions), len(sample.addresses), shape, trained, levels)


def is_outdated(snapshot: Snapshot, definition: Definition, segment: IndexMetadata) -> bool:
    """Whether it is not known what searches of a segment find, or was measured of another one."""
    from lance_spark.index.vector.measured import measured_in
    from lance_spark.table.search.settled import tells_of

    measured = measured_in(segment.details)
    if measured is None:
        return True
    search = _opened(_with_segment(snapshot, segment), _asked(definition))
    return search is not None and not tells_of(measured, search.segments[0])


def _asked(definition: Definition) -> Nearest:
    """What is searched for, without queries."""
    from lance_spark.table.search.nearest import Nearest

    return Nearest(definition.path, definition.field, np.empty((0, 0)), True, False, 1)


def _with_segment(snapshot: Snapshot, segment: IndexMetadata) -> Snapshot:
    """The version as if it had this index alone."""
    system = tuple(i for i in snapshot.manifest.indexes if i.name in SYSTEM_INDEXES)
    return replace(snapshot, manifest=replace(snapshot.manifest, indexes=(*system, segment)))


def _opened(snapshot: Snapshot, asked: Nearest) -> IndexSearch | None:
    from lance_spark.table.search.index_search import index_search

    return index_search(snapshot, asked)


@dataclass(frozen=True)
class _Sample:
    """Some rows of a segment: their addresses, and their vectors as they are compared."""

    addresses: np.ndarray
    vectors: np.ndarray


def _sampled(search: IndexSearch, nearest: Nearest) -> _Sample | None:
    """Random rows; None if there are too few rows."""
    from lance_spark.table.search.brute_force import vectors_at

    (searched,) = search.segments
    sizes = searched.index.partitions.stops - searched.index.partitions.starts
    rows = int(sizes.sum())
    if rows < _LEAST_ROWS:
        return None
    count = min(max(min(_QUERIES, _COMPARISONS // rows), _FEWEST_QUERIES), rows // 2)
    places = np.sort(np.random.default_rng(rows).choice(rows, count, replace=False))
    ends = np.cumsum(sizes)
    numbers = np.searchsorted(ends, places, side="right")
    chosen = []
    for number in np.unique(numbers).tolist():
        addresses, exist = searched.rows(search.snapshot, number, searched.partition(number), None)
        own = places[numbers == number] - (ends[number] - sizes[number])
        chosen.append(addresses[own][exist[own]])
    found = np.unique(np.concatenate(chosen))
    if len(found) < _FEWEST_QUERIES:
        return None
    return _Sample(found, vectors_at(search.snapshot, nearest, found))


@dataclass(frozen=True)
class _Found:
    """What one search found for a query, the nearest rows by their codes first: the order of the partition of each row among
    those nearest to the query, and the addresses.
    """

    partition_ranks: np.ndarray
    addresses: np.ndarray


class _Trial:
    """Searches for the neighbors of some rows, with their vectors as queries and the addresses `own`.

    Each search is as if its row were not there: other queries are no rows. So it is not among what is
    found, nor among what should be, and the walk through a graph, where a row has the edges to
    its neighbors, does not meet it.
    """

    def __init__(self, search: IndexSearch, nearest: Nearest, own: np.ndarray) -> None:
        self._search, self._nearest, self._own = search, nearest, own
        (self._searched,) = search.segments
        self._kind = self._searched.index.kind
        self._walks: dict[int, list[_Found]] = {}

    @cached_property
    def _prepared(self) -> np.ndarray:
        return self._searched.index.prepared(self._nearest.queries)

    @cached_property
    def _order(self) -> tuple[np.ndarray, np.ndarray]:
        index = self._searched.index
        return index.nearest_partitions(self._prepared, len(index.partitions))

    @property
    def shape(self) -> Shape:
        """How well the partitions fit. Under dot, distances from centroids tell nothing: they are 0."""
        from lance_spark.index.vector.measured import Shape

        _, distances = self._order
        partitions = self._searched.index.partitions
        sizes = (partitions.stops - partitions.starts).astype(np.float64)
        imbalance = len(sizes) * float((sizes**2).sum()) / max(float(sizes.sum()) ** 2, 1.0)
        apart = 0.0 if self._search.metric == "dot" else float(np.mean(distances[:, 0], dtype=np.float64))
        return Shape(apart, imbalance)

    @cached_property
    def _partition_ranks(self) -> np.ndarray:
        """For each query and partition, how many partitions are nearer."""
        order, _ = self._order
        ranks = np.zeros((len(order), len(self._searched.index.partitions)), np.int64)
        np.put_along_axis(ranks, order, np.arange(order.shape[1])[None], axis=1)
        return ranks

    @cached_property
    def _truth(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The distances and the addresses of the other rows that are nearest to each query."""
        from lance_spark.index.vector.best import Best
        from lance_spark.index.vector.measured import LEVELS
        from lance_spark.table.search.brute_force import search

        nearest = replace(self._nearest, k=LEVELS[-1] + _SPARE + 1, use_index=False)
        best = [Best(nearest.k) for _ in self._own]
        covered = frozenset(self._search.covered)
        search(self._search.snapshot, nearest, self._search.metric, None, covered, best, Here())
        found = []
        for own, kept in zip(self._own, best):
            distances, addresses = kept.found()
            others = addresses != own
            found.append((distances[others], addresses[others]))
        return found

    def settings(self, k: int) -> list[Setting]:
        """The settings that were tried for the `k` nearest rows, the cheapest first, each with a higher recall."""
        tried = sorted(self._tried(k), key=lambda both: (both[0], -both[1].recall))
        kept: list[Setting] = []
        for _, setting in tried:
            if not kept or setting.recall > kept[-1].recall + 1e-9:
                kept.append(setting)
            if setting.recall >= _ENOUGH:
                break
        return kept

    def _tried(self, k: int) -> Iterator[tuple[float, Setting]]:
        """Settings with what they cost."""
        if "_HNSW_" not in self._kind:
            yield from self._of_search(self._all, k, 0)
            return
        for ef in _EFS:
            if ef >= k:
                tried = list(self._of_search(self._walked(ef), k, ef))
                yield from tried
                if max(setting.recall for _, setting in tried) >= _ENOUGH:
                    return

    def _of_search(self, found: Sequence[_Found], k: int, ef: int) -> Iterator[tuple[float, Setting]]:
        from lance_spark.index.vector.measured import Setting

        factors = (1,) if self._kind.endswith("_FLAT") else tuple(f for f in _FACTORS if k * f <= (ef or _CANDIDATES))
        near = [self._near(query, k) for query in range(len(found))]
        wanted = sum(count for _, count in near)
        if not wanted:
            return
        matched = [np.isin(own.addresses, addresses) for own, (addresses, _) in zip(found, near)]
        for nprobes in _steps(len(self._searched.index.filled)):
            hits = np.zeros(len(factors), np.int64)
            for own, is_near, (_, count) in zip(found, matched, near):
                ordered = np.cumsum(is_near[own.partition_ranks < nprobes])
                for i, factor in enumerate(factors):
                    there = ordered[: k * factor]
                    hits[i] += min(int(there[-1]), count) if len(there) else 0
            for factor, hit in zip(factors, hits.tolist()):
                refine = factor if factor > 1 else 0
                yield self._cost(nprobes, ef, k * refine), Setting(nprobes, ef, refine, hit / wanted)

    def _near(self, query: int, k: int) -> tuple[np.ndarray, int]:
        """The addresses of the rows that are among the `k` nearest, with all at the last distance; and how many are wanted."""
        distances, addresses = self._truth[query]
        count = min(k, len(distances))
        if not count:
            return addresses, 0
        last = float(distances[count - 1])
        return addresses[distances <= last + _EQUAL * abs(last)], count

    def _cost(self, nprobes: int, ef: int, read: int) -> float:
        index = self._searched.index
        rows = int(np.sum(index.partitions.stops - index.partitions.starts))
        share = nprobes / max(len(index.filled), 1)
        if ef:
            return nprobes * ef * _WALK_NS + read * _READ_NS
        return rows * share * (_ROW_NS + _BYTE_NS * self._width) + read * _READ_NS

    @cached_property
    def _width(self) -> float:
        """The bytes of the code of a row."""
        number = int(self._searched.index.filled[0])
        partition = self._searched.partition(number)
        return partition.codes.nbytes / max(len(partition.rows), 1)

    def _walked(self, ef: int) -> list[_Found]:
        """What searches of the graphs of all partitions find that keep `ef` rows of each."""
        if ef not in self._walks:
            self._walks[ef] = [self._walk(query, ef) for query in range(len(self._own))]
        return self._walks[ef]

    def _walk(self, query: int, ef: int) -> _Found:
        from lance_spark.index.vector.hnsw import NO_VECTOR

        index, ranks, rows, distances = self._searched.index, [], [], []
        for number in index.filled.tolist():
            partition = self._searched.partition(number)
            graph = partition.graph
            assert graph is not None
            addresses, exist = self._searched.rows(self._search.snapshot, number, partition, None)
            own = np.flatnonzero(addresses == self._own[query])
            found, apart = index.nearest(
                self._prepared[query],
                number,
                graph,
                partition,
                min(ef, len(addresses)),
                None if exist.all() else exist,
                int(own[0]) if len(own) else NO_VECTOR,
            )
            ranks.append(np.full(len(found), self._partition_ranks[query, number]))
            rows.append(addresses[found])
            distances.append(apart)
        order = np.argsort(np.concatenate(distances), kind="stable")
        others = order[np.concatenate(rows)[order] != self._own[query]]
        return _Found(np.concatenate(ranks)[others], np.concatenate(rows)[others])

    @cached_property
    def _all(self) -> list[_Found]:
        """What a search of all partitions finds by codes."""
        from lance_spark.index.vector.best import Best
        from lance_spark.table.search.segments import Wanted

        there = len(self._searched.index.partitions)
        nearest = replace(self._nearest, minimum_nprobes=there, maximum_nprobes=there)
        best = [Best(_CANDIDATES) for _ in self._own]
        self._search.search(nearest, Wanted(_CANDIDATES), None, best, Here())
        rows = [kept.found()[1] for kept in best]
        known = np.unique(np.concatenate(rows))
        partitions = _partitions_of(self._search.snapshot, self._searched, known)
        found = []
        for query, (own, addresses) in enumerate(zip(self._own, rows)):
            others = addresses[addresses != own]
            ranks = self._partition_ranks[query, partitions[np.searchsorted(known, others)]]
            found.append(_Found(ranks, others))
        return found


def _partitions_of(snapshot: Snapshot, searched: SearchedSegment, known: np.ndarray) -> np.ndarray:
    """The partition of each of the rows at these addresses, which ascend."""
    found = np.zeros(len(known), np.int64)
    for number in searched.index.filled.tolist():
        addresses, exist = searched.rows(snapshot, number, searched.partition(number), None)
        own = addresses[exist]
        at = np.minimum(np.searchsorted(known, own), len(known) - 1)
        found[at[known[at] == own]] = number
    return found


def _steps(most: int) -> list[int]:
    """Numbers of partitions to try, each at most half as many again as the one before, up to all."""
    found = [1]
    while found[-1] < most:
        found.append(min(max(found[-1] + 1, found[-1] * 4 // 3), most))
    return found
