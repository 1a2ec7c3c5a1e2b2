"""Searching the segments of a vector index for the rows that are nearest to a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pyroaring import BitMap

from lance_spark._proto import index_pb2
from lance_spark.buffers.messages import parse_message
from lance_spark.errors import CorruptFileError, LanceError, StorageError, UnsupportedFeatureError
from lance_spark.index.vector.best import Best, Heap
from lance_spark.index.vector.index import VectorIndex, open_index
from lance_spark.index.vector.make.recipe import kind_in, metric_in
from lance_spark.table.scan.indexed import Segment, Segments, segments_of
from lance_spark.table.scan.runner import Here, Runner
from lance_spark.table.search.nearest import Nearest
from lance_spark.table.search.segments import SearchedSegment, search_together
from lance_spark.table.versions.snapshot import Snapshot

_NOTHING: Mapping[bytes, LanceError] = {}
_ALLOWED_BYTES = 8 << 20
"""A filter that leaves more bytes of addresses is not sent to tasks: the index is searched in this process."""


@dataclass(frozen=True)
class IndexSearch:
    """The index of a column that a search uses: its segments, and the fragments that they cover."""

    snapshot: Snapshot
    segments: Sequence[SearchedSegment]

    @property
    def name(self) -> str:
        """The name of the index."""
        return self.segments[0].segment.index.name

    @property
    def metric(self) -> str:
        """The metric of the index."""
        return self.segments[0].index.metric

    @property
    def covered(self) -> BitMap:
        """The fragments whose rows are searched for in the segments."""
        return BitMap().union(*(s.segment.covered for s in self.segments))

    @property
    def may_be_stale(self) -> bool:
        """Whether a segment may have earlier vectors of rows beside the present ones."""
        segments = segments_of(self.snapshot)
        return any(not segments.has_every_row_once(s.segment) for s in self.segments)

    def search(self, nearest: Nearest, allowed: np.ndarray | None, best: Sequence[Best], runner: Runner) -> None:
        """Add the rows of the segments that are nearest to each query to its `best`, with the distances that their codes have.

        `allowed` are the addresses of the rows that may be found, ascending (None: all). Raises DamagedSegmentError.
        """
        alone: Sequence[int] = range(len(best))
        if len(best) > 1 or not isinstance(runner, Here):
            few = allowed is None or allowed.nbytes <= _ALLOWED_BYTES
            alone = search_together(self.snapshot, self.segments, nearest, allowed, best, runner if few else Here())
        for number in alone:
            self._search(nearest, nearest.queries[number], allowed, best[number])

    def _search(self, nearest: Nearest, query: np.ndarray, allowed: np.ndarray | None, best: Best) -> None:
        begun = [(s, _Probes(s, self.snapshot, nearest, query, allowed, best.heap())) for s in self.segments]
        for segment, probes in begun:
            probes.take(segment.first_probes(nearest))
        for segment, probes in begun:
            while sum(len(p.heap) for _, p in begun) < nearest.k and probes.taken < segment.most_probes(nearest) and probes.take(1):
                pass
        for _, probes in begun:
            best.add(*probes.heap.found())


class _Probes:
    """The partitions of a segment in the order in which they are searched for a query."""

    def __init__(
        self, searched: SearchedSegment, snapshot: Snapshot, nearest: Nearest, query: np.ndarray, allowed: np.ndarray | None, heap: Heap
    ) -> None:
        self._searched, self._snapshot, self._nearest, self._allowed = searched, snapshot, nearest, allowed
        self.heap = heap
        self._query = searched.index.prepared(query)
        self._form = searched.index.forms(self._query[None])
        (self._order,) = searched.index.nearest_partitions(self._query[None], len(searched.index.partitions))
        self.taken = 0

    def take(self, count: int) -> int:
        """Search the next partitions, at most `count`; how many there were."""
        chosen = self._order[self.taken : self.taken + count].tolist()
        self.taken += len(chosen)
        for number in chosen:
            self._search(number)
        return len(chosen)

    def _search(self, number: int) -> None:
        index = self._searched.index
        partition = self._searched.partition(number)
        addresses, exist = self._searched.rows(self._snapshot, number, partition, self._allowed)
        whole = bool(exist.all())
        allowed = None if whole else exist
        if partition.graph is None:
            self.heap.add(index.distances(self._form, number, partition.codes)[:, 0], addresses, allowed)
            return
        found, distances = self._searched.walk(self._nearest, self._query, number, partition, allowed)
        self.heap.add(distances, addresses[found])


def index_search(snapshot: Snapshot, nearest: Nearest, without: Mapping[bytes, LanceError] = _NOTHING) -> IndexSearch | None:
    """The index that a search of the column uses, the one that covers most rows; None if there is none with the metric.

    Segments with a uuid in `without`, and those that cannot be opened, are not used, with a warning.
    """
    if not nearest.use_index or nearest.several or not snapshot.manifest.indexes:
        return None
    segments = segments_of(snapshot)
    by_name: dict[str, list[SearchedSegment]] = {}
    for searched in _opened(segments, nearest, without):
        own = by_name.setdefault(searched.segment.index.name, [])
        taken = BitMap().union(*(other.segment.covered for other in own))
        left = searched.segment.covered - taken  # a fragment is searched in one segment only
        if left and (not own or own[0].index.metric == searched.index.metric):
            own.append(replace(searched, segment=replace(searched.segment, covered=left)))
    found = [IndexSearch(snapshot, own) for own in by_name.values()]
    return max(found, key=lambda search: segments.live_rows(search.covered), default=None)


def _opened(segments: Segments, nearest: Nearest, without: Mapping[bytes, LanceError]) -> Iterator[SearchedSegment]:
    """The open segments of the column that have the metric of the search."""
    for segment in segments.searched("VECTOR", nearest.field):
        if segment.index.uuid in without:
            continue
        index = _open(segments, segment, nearest)
        if isinstance(index, LanceError):
            segments.unused(segment.index, index)
        elif nearest.metric in (None, index.metric):
            yield SearchedSegment(segment, index)


def _open(segments: Segments, segment: Segment, nearest: Nearest) -> VectorIndex | LanceError:
    """An open segment, or why it cannot be used."""
    try:
        if (reason := segments.other_column(segment.index)) is not None:
            raise CorruptFileError(reason)
        return open_index(segments.files(segment, nearest.field))
    except (CorruptFileError, UnsupportedFeatureError, StorageError) as e:
        return e


@dataclass(frozen=True)
class LostSegment:
    """A segment whose files cannot be used, so that its rows are compared with the query; `problem` says why."""

    segment: Segment
    problem: LanceError

    @property
    def metric(self) -> str:
        """Its metric. Raises CorruptFileError if the manifest does not tell it, as that of old writers."""
        index = self.segment.index
        what = f"the details of the index {index.name!r}"
        parse_message(index_pb2.VectorIndexDetails, index.details, what)
        if kind_in(index.details) is None:
            raise CorruptFileError(
                f"index {index.name!r} cannot be read: {self.problem}; this file alone tells its metric: give the parameter 'metric', "
                "or drop the index and create it again"
            )
        return metric_in(index.details)


def lost_segments(snapshot: Snapshot, nearest: Nearest, without: Mapping[bytes, LanceError] = _NOTHING) -> list[LostSegment]:
    """The segments of the column that a search would use, but for their files."""
    if not nearest.use_index or nearest.several or not snapshot.manifest.indexes:
        return []
    segments = segments_of(snapshot)
    found: list[LostSegment] = []
    for segment in segments.searched("VECTOR", nearest.field):
        problem = without.get(segment.index.uuid) or _open(segments, segment, nearest)
        if isinstance(problem, LanceError):
            found.append(LostSegment(segment, problem))
    return found
