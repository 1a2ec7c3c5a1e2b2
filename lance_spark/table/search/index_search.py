"""Searching the segments of a vector index for the rows that are nearest to a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
from pyroaring import BitMap

from lance_spark.errors import CorruptFileError, StorageError, UnsupportedFeatureError
from lance_spark.index.vector.best import Best
from lance_spark.index.vector.index import VectorIndex, open_index
from lance_spark.table.scan.indexed import Segment, Segments, segments_of
from lance_spark.table.search.damaged import DamagedSegmentError
from lance_spark.table.search.nearest import Nearest
from lance_spark.table.versions.snapshot import Snapshot

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

    def most_probes(self, nearest: Nearest) -> int:
        """The number of partitions that may be searched."""
        there = len(self.index.partitions)
        return min(nearest.maximum_nprobes or there, there)


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

    def search(self, nearest: Nearest, query: np.ndarray, allowed: np.ndarray | None, best: Best) -> None:
        """Add the rows of the segments that are nearest to a query to the `best`, with the distances that their codes have.

        `allowed` are the addresses of the rows that may be found, ascending (None: all). Raises DamagedSegmentError.
        """
        begun = [(s, _Probes(s, self.snapshot, nearest, query, allowed, best)) for s in self.segments]
        for segment, probes in begun:
            probes.take(segment.first_probes(nearest))
        for segment, probes in begun:
            while len(best) < nearest.k and probes.taken < segment.most_probes(nearest) and probes.take(1):
                pass


class _Probes:
    """The partitions of a segment in the order in which they are searched for a query."""

    def __init__(
        self, searched: SearchedSegment, snapshot: Snapshot, nearest: Nearest, query: np.ndarray, allowed: np.ndarray | None, best: Best
    ) -> None:
        self._searched, self._snapshot, self._nearest, self._allowed, self._best = searched, snapshot, nearest, allowed, best
        self._query = searched.index.prepared(query)
        self._order = searched.index.nearest_partitions(self._query)
        self.taken = 0

    def take(self, count: int) -> int:
        """Search the next partitions, at most `count`; how many there were."""
        chosen = self._order[self.taken : self.taken + count].tolist()
        self.taken += len(chosen)
        index = self._searched.segment.index
        for number in chosen:
            try:
                self._search(number)
            except (CorruptFileError, UnsupportedFeatureError, StorageError) as e:
                raise DamagedSegmentError(str(e), index) from e
        return len(chosen)

    def _search(self, number: int) -> None:
        index = self._searched.index
        partition = index.partition(number)
        addresses, exist = self._rows(number, partition.rows)
        if self._allowed is not None:
            exist = exist & _among(addresses, self._allowed)
        whole = bool(exist.all())
        distances = index.distances(self._query, number, partition)
        if partition.graph is None:
            self._best.add(distances, addresses, None if whole else exist)
            return
        wanted = self._nearest.k * (self._nearest.refine_factor or 1)
        keep = max(self._nearest.ef or wanted + wanted // 2, wanted)
        found = partition.graph.nearest(distances, keep, None if whole else exist)
        self._best.add(distances[found], addresses[found])

    def _rows(self, number: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The present addresses of the rows of a partition, and a mask of those that exist; they stay in memory."""
        segment = self._searched.segment
        key = "rows of a partition", segment.index.uuid, segment.covered.serialize(), number
        return self._snapshot.locations.kept.get(
            key, lambda: segments_of(self._snapshot).present(segment, rows), lambda both: both[0].nbytes + both[1].nbytes
        )


def _among(addresses: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """A mask of the addresses that are among the `allowed` ones, which ascend."""
    if not len(allowed):
        return np.zeros(len(addresses), np.bool_)
    at = np.minimum(np.searchsorted(allowed, addresses), len(allowed) - 1)
    return np.asarray(allowed[at] == addresses)


def index_search(snapshot: Snapshot, nearest: Nearest, without: Set[bytes] = frozenset()) -> IndexSearch | None:
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


def _opened(segments: Segments, nearest: Nearest, without: Set[bytes]) -> Iterator[SearchedSegment]:
    """The open segments of the column that have the metric of the search."""
    for segment in segments.searched("VECTOR", nearest.field):
        if segment.index.uuid in without:
            continue
        try:
            if (reason := segments.other_column(segment.index)) is not None:
                raise CorruptFileError(reason)
            index = open_index(segments.files(segment, nearest.field))
        except (CorruptFileError, UnsupportedFeatureError, StorageError) as e:
            segments.unused(segment.index, e)
            continue
        if nearest.metric in (None, index.metric):
            yield SearchedSegment(segment, index)
