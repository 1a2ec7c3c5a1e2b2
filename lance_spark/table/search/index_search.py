"""Searching the segments of a vector index for the rows that are nearest to a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pyroaring import BitMap

from lance_spark._proto import index_pb2
from lance_spark.buffers.messages import parse_message
from lance_spark.errors import CorruptFileError, LanceError, StorageError, UnsupportedFeatureError
from lance_spark.index.files import IndexFiles
from lance_spark.index.vector.best import Best, Bounds, Heap
from lance_spark.index.vector.index import VectorIndex, metric_told, open_index
from lance_spark.index.vector.make.recipe import kind_in, metric_in
from lance_spark.index.vector.pq import UnusedCodesError
from lance_spark.table.scan.indexed import Segment, Segments, segments_of
from lance_spark.table.scan.runner import Here, Runner
from lance_spark.table.search.brute_force import exact_distances
from lance_spark.table.search.nearest import Nearest
from lance_spark.table.search.segments import SearchedSegment, Wanted, search_together
from lance_spark.table.versions.snapshot import Snapshot

_NOTHING: Mapping[bytes, LanceError] = {}
_ALLOWED_BYTES = 8 << 20
"""A filter that leaves more bytes of addresses is not sent to tasks: the index is searched in this process."""

_FURTHER = 4
_FURTHER_ROWS = 256
"""If the rows that were found do not suffice, so many times as many are searched for, and so many at least."""


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
    def has_log(self) -> bool:
        """Whether there are segments of SSTables, whose model may be another one, so that distances of codes are not compared."""
        return any(s.segment.is_of_log for s in self.segments)

    @property
    def may_be_stale(self) -> bool:
        """Whether a segment may have earlier vectors of rows beside the present ones."""
        segments = segments_of(self.snapshot)
        return any(not segments.has_every_row_once(s.segment) for s in self.segments)

    def search(
        self,
        nearest: Nearest,
        wanted: Wanted,
        allowed: np.ndarray | None,
        best: Sequence[Best],
        runner: Runner,
    ) -> None:
        """Add the rows of the segments that are nearest to each query to its `best`, with the distances that their codes have.

        `allowed` are the addresses of the rows that may be found, ascending (None: all). Raises DamagedSegmentError.
        """
        alone: Sequence[int] = range(len(best))
        if len(best) > 1 or not isinstance(runner, Here):
            few = allowed is None or allowed.nbytes <= _ALLOWED_BYTES
            chosen = runner if few else Here()
            alone = search_together(self.snapshot, self.segments, nearest, wanted, allowed, best, chosen)
        for number in alone:
            for probes in self._searched(nearest, nearest.queries[number], wanted, allowed):
                best[number].add(*probes.heap.found())

    def further(
        self,
        nearest: Nearest,
        query: np.ndarray,
        wanted: Wanted,
        allowed: np.ndarray | None,
        known: np.ndarray,
    ) -> Iterator[Iterator[np.ndarray]]:
        """The addresses of further rows than the `known` ones, in the partitions that a search of the query reads.

        They come in batches, those first that are likely in the range of the search: first the rows that
        are not below its lower bound by their codes, the nearest ones first; then, in batches of their own,
        the rows below it, those that are nearest to it first. Raises DamagedSegmentError.
        """
        searched = self._searched(nearest, query, wanted, allowed)
        yield _further(searched, wanted.count, wanted.within, known, None)
        least = wanted.within[0]
        if least is not None:
            yield _further(searched, wanted.count, (0.0, None), known, least)

    def _searched(self, nearest: Nearest, query: np.ndarray, wanted: Wanted, allowed: np.ndarray | None) -> list[_Probes]:
        """The partitions of each segment that are searched for a query, with the nearest rows in them."""
        begun = [_Probes(segment, self.snapshot, nearest, query, allowed, wanted) for segment in self.segments]
        for probes in begun:
            probes.take(probes.first)
        for probes in begun:
            while probes.taken < probes.most and sum(p.near() for p in begun) < nearest.k and probes.take(1):
                pass
        return begun


def _further(
    searched: Sequence[_Probes],
    count: int,
    within: Bounds,
    known: np.ndarray,
    below: float | None,
) -> Iterator[np.ndarray]:
    """The addresses of rows within bounds that are not `known`, in batches, the nearest ones first.

    With `below`, distances are measured from this one downwards.
    """
    while True:
        count = max(_FURTHER * count, _FURTHER_ROWS)
        best = Best(count, within)
        for probes in searched:
            best.add(*probes.again(Heap(count, within), count, below).found())
        _, rows = best.found()
        others = np.setdiff1d(rows, known)
        if len(others):
            yield others
            known = np.concatenate([known, others])
        if len(rows) < count:
            return


class _Probes:
    """The partitions of a segment in the order in which they are searched for a query."""

    def __init__(
        self,
        searched: SearchedSegment,
        snapshot: Snapshot,
        nearest: Nearest,
        query: np.ndarray,
        allowed: np.ndarray | None,
        wanted: Wanted,
    ) -> None:
        self._searched, self._snapshot, self._nearest, self._allowed = searched, snapshot, nearest, allowed
        self._wanted = wanted
        self.heap = Heap(wanted.count, wanted.within)
        index, there = searched.index, len(searched.index.partitions)
        self._query = index.prepared(query)
        self._form = index.forms(self._query[None])
        order, distances = index.nearest_partitions(self._query[None], there)
        self._order = order[0]
        self.first = int(nearest.probes.counts(distances, index.metric, there)[0])
        """How many partitions are searched whatever is found."""
        self.most = nearest.probes.most(there)
        self.taken = 0

    def near(self) -> int:
        """How many rows have been found that are in the range of the search, by their codes."""
        bound = self._wanted.bound
        return len(self.heap) if bound is None else self.heap.count_below(bound)

    def take(self, count: int) -> int:
        """Search the next partitions, at most `count`; how many there were."""
        chosen = self._order[self.taken : self.taken + count].tolist()
        self.taken += len(chosen)
        for number in chosen:
            self._search(number, self.heap, self._wanted.count, None)
        return len(chosen)

    def again(self, heap: Heap, count: int, below: float | None) -> Heap:
        """Search the partitions that were taken for `count` rows. `below` is as for `_further`."""
        for number in self._order[: self.taken].tolist():
            self._search(number, heap, count, below)
        return heap

    def _search(self, number: int, heap: Heap, count: int, below: float | None) -> None:
        index = self._searched.index
        partition = self._searched.partition(number)
        addresses, exist = self._searched.rows(self._snapshot, number, partition, self._allowed)
        allowed = None if bool(exist.all()) else exist
        if partition.graph is None:
            distances = index.distances(self._form, number, partition.codes)[:, 0]
        else:
            ef, wanted = self._nearest.ef, replace(self._wanted, count=count)
            places, distances = self._searched.walk(self._query, number, partition, allowed, wanted, ef)
            addresses, allowed = addresses[places], None
        heap.add(distances if below is None else np.float32(below) - distances, addresses, allowed)


@dataclass(frozen=True)
class Refinement:
    """How distances of the rows that an index finds are computed from their vectors. `allowed` are as for `IndexSearch.search`.

    The codes of an index estimate distances. Where exact ones are wanted, rows with near codes are candidates: their vectors are
    read, and only then it is known which of them are in the range of the search. So candidates are taken until there are `k` rows
    in the range, or until further ones bring none.
    """

    index: IndexSearch
    nearest: Nearest
    wanted: Wanted
    allowed: np.ndarray | None

    def best(self, candidates: Mapping[int, np.ndarray]) -> dict[int, Best]:
        """The nearest rows of each query by their vectors.

        `candidates` are the addresses of the rows that the index has found for queries, by their numbers.
        """
        nearest = self.nearest
        addresses = {number: np.unique(found) for number, found in candidates.items()}
        best = {number: Best(nearest.k, nearest.distance_range) for number in addresses}
        for number, distances in self._distances(addresses).items():
            best[number].add(distances, addresses[number])
        for number, own in best.items():
            if len(own) < nearest.k and self._may_have_more(candidates[number]):
                self._add_further(number, own, addresses[number])
        return best

    def _distances(self, addresses: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
        return exact_distances(self.index.snapshot, self.nearest, self.index.metric, addresses)

    def _may_have_more(self, candidates: np.ndarray) -> bool:
        """Whether the partitions that were searched may have other rows than these candidates."""
        return len(candidates) == self.wanted.count or self.wanted.within[0] is not None

    def _add_further(self, number: int, best: Best, known: np.ndarray) -> None:
        """Add further rows to the best ones of a query until there are enough."""
        query = self.nearest.queries[number]
        for batches in self.index.further(self.nearest, query, self.wanted, self.allowed, known):
            for rows in batches:
                before = len(best)
                best.add(self._distances({number: rows})[number], rows)
                # The batches come in the order of their estimates, and have some hundred rows: if none of one
                # is in the range, those of later ones would have to be estimated even worse.
                if len(best) in (before, best.count):
                    break
            if len(best) == best.count:
                return


def index_search(snapshot: Snapshot, nearest: Nearest, without: Mapping[bytes, LanceError] = _NOTHING) -> IndexSearch | None:
    """The index that a search of the column uses, the one that covers most rows; None if there is none with the metric.

    Segments with a uuid in `without`, and those that cannot be opened, are not used, with a warning.
    """
    if not nearest.use_index or not snapshot.manifest.indexes:
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
        if (reason := segments.other_column(segment)) is not None:
            raise CorruptFileError(reason)
        return open_index(segments.files(segment, nearest.field)).in_mode(nearest.approx_mode)
    except (CorruptFileError, UnsupportedFeatureError, StorageError) as e:
        return e


@dataclass(frozen=True)
class LostSegment:
    """A segment whose files cannot be used, so that its rows are compared with the query; `problem` says why."""

    segment: Segment
    problem: LanceError
    files: IndexFiles

    @property
    def metric(self) -> str:
        """Its metric. Raises CorruptFileError if neither the manifest, as that of old writers, nor a file tells it."""
        index = self.segment.index
        what = f"the details of the index {index.name!r}"
        parse_message(index_pb2.VectorIndexDetails, index.details, what)
        if kind_in(index.details) is None:
            if (told := metric_told(self.files)) is not None:
                return told
            raise CorruptFileError(
                f"index {index.name!r} cannot be read: {self.problem}; this file alone tells its metric: give the parameter 'metric', "
                "or drop the index and create it again"
            )
        return metric_in(index.details)


def lost_segments(snapshot: Snapshot, nearest: Nearest, without: Mapping[bytes, LanceError] = _NOTHING) -> list[LostSegment]:
    """The segments of the column that a search would use, but for their files.

    Those that no version of pylance uses are not among them: their metric never was that of a search.
    """
    if not nearest.use_index or not snapshot.manifest.indexes:
        return []
    segments = segments_of(snapshot)
    found: list[LostSegment] = []
    for segment in segments.searched("VECTOR", nearest.field):
        problem = without.get(segment.index.uuid) or _open(segments, segment, nearest)
        if isinstance(problem, LanceError) and not isinstance(problem, UnusedCodesError):
            found.append(LostSegment(segment, problem, segments.files(segment, nearest.field)))
    return found
