"""Planning a nearest join: what is searched is divided into groups, and each question goes to the groups that it searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.predicate import Predicate
from lance_spark.schema.schema import quoted
from lance_spark.table.mem_wal.version import with_log
from lance_spark.table.scan.indexed import Segment, segments_of
from lance_spark.table.scan.parts import live_by_id
from lance_spark.table.scan.plan import ScanPlan, plan_tasks
from lance_spark.table.scan.task import ScanTask
from lance_spark.table.search.hits import addresses_of
from lance_spark.table.search.index_search import IndexSearch, index_search, lost_segments
from lance_spark.table.search.nearest import Nearest
from lance_spark.table.search.segments import Pinned, Wanted, wanted_of
from lance_spark.table.search.settled import Settled, settled
from lance_spark.table.search.vector_search import VectorSearch
from lance_spark.table.versions.snapshot import Snapshot

_GROUPS_PER_CORE = 2
_GROUP_BYTES = 128 << 20
"""A group has partitions of at most about so many bytes in files. If all that is searched has no more, each task searches all of it."""

_CODEC = "zstd"


@dataclass(frozen=True)
class NearestJoin:
    """What tasks know of a nearest join.

    `nearest` says what is searched for; its only query stands for those of a task. `segments` are those of the index, and `groups` has the
    group of each partition of each. The `scans` of rows that no segment covers, or of all, are one group each, after those of partitions:
    `group_count` is the number of both. `allowed` are the addresses of the rows of the index that may be found, ascending (None: all).

    `wanted` says what is taken from the index for each question: of each group, `room` rows, which are one more than are wanted. It tells
    whether several are at the last distance. `exact`: their distances are computed from the vectors. `all_searched`: each question
    searches all partitions there are.
    `together`: each task searches in all groups for its questions, so that these need not be sent to others; partitions are one group then.
    """

    version: Pinned
    nearest: Nearest
    metric: str
    segments: tuple[Segment, ...]
    groups: tuple[np.ndarray, ...]
    scans: tuple[ScanTask, ...]
    group_count: int
    allowed: np.ndarray | None
    wanted: Wanted
    room: int
    exact: bool
    all_searched: bool
    together: bool

    def __getstate__(self) -> dict[str, Any]:
        """Two steps get the addresses of many rows: these are pickled as differences, which are mostly small, and compressed."""
        if self.allowed is None:
            return self.__dict__
        apart = np.diff(self.allowed, prepend=np.uint64(0))
        return self.__dict__ | {"allowed": (len(apart), pa.Codec(_CODEC).compress(apart, asbytes=True))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state["allowed"] is not None:
            count, packed = state["allowed"]
            apart = np.frombuffer(pa.Codec(_CODEC).decompress(packed, 8 * count), np.uint64)
            state["allowed"] = np.cumsum(apart, dtype=np.uint64)
        self.__dict__.update(state)

    @property
    def first_scan(self) -> int:
        """The group of the first scan."""
        return self.group_count - len(self.scans)


def plan_join(snapshot: Snapshot, nearest: Nearest, predicate: Predicate | None, fast_search: bool, cores: int) -> tuple[NearestJoin, str]:
    """The join for tasks that `cores` run at once, and what it searches in words."""
    snapshot = with_log(snapshot)
    query = VectorSearch(nearest, prefilter=True, fast_search=fast_search)
    index = index_search(snapshot, nearest)
    lost = lost_segments(snapshot, nearest)
    others, metric = query.others(snapshot, index, lost), query.metric(index, lost)
    allowed, chosen = None, Settled(nearest)
    if index is not None:
        share = 1.0
        if predicate is not None:
            allowed = addresses_of(snapshot, predicate, index.covered, True)
            share = len(allowed) / max(segments_of(snapshot).live_rows(index.covered), 1)
        chosen = settled(index.segments, nearest, share)
        nearest = chosen.nearest
    if index is not None and not chosen.in_reach:
        others = frozenset(index.covered).union(others or ())
        index = allowed = None
    scans: Sequence[ScanTask] = ()
    if others is None or others:
        plan = ScanPlan((quoted(nearest.path), "_rowaddr"), predicate, fragments=others)
        scans = [task for task in plan_tasks(snapshot, plan, cores) if task.parts]
    segments = () if index is None else index.segments
    size = 0 if index is None else sum(file.size for s in index.segments for file in s.segment.index.files)
    vectors = sum(rows for fragment, rows in live_by_id(snapshot).items() if others is None or fragment in others)
    together = size + vectors * nearest.queries.nbytes <= _GROUP_BYTES
    groups, count = _groups(index, 1 if together else max(cores * _GROUPS_PER_CORE, -(-size // _GROUP_BYTES)))
    rows = sum(int(np.sum(s.index.partitions.stops - s.index.partitions.starts)) for s in segments)
    exact = index is not None and (bool(others) or nearest.refine_factor is not None or index.may_be_stale)
    wanted = wanted_of(nearest, metric, exact)
    join = NearestJoin(
        Pinned(snapshot),
        nearest,
        metric,
        tuple(s.segment for s in segments),
        groups,
        tuple(scans),
        count + len(scans),
        allowed,
        wanted,
        min(wanted.count + 1, max(rows, 1)),
        exact,
        all(s.searches_all(nearest) for s in segments),
        together,
    )
    words = chosen.in_words()
    return join, _told(join, index, others) + ("" if words is None else f"; {words}")


def _groups(index: IndexSearch | None, most: int) -> tuple[tuple[np.ndarray, ...], int]:
    """The group of each partition of each segment, and the number of groups, at most so many, which have about as many rows."""
    if index is None:
        return (), 0
    rows = [s.index.partitions.stops - s.index.partitions.starts for s in index.segments]
    ends = np.cumsum(np.concatenate(rows))
    count = min(most, len(ends))
    if not len(ends):
        return tuple(np.empty(0, np.int64) for _ in rows), 0
    middle = ends - np.concatenate(rows) / 2
    group = np.minimum((middle * count / max(int(ends[-1]), 1)).astype(np.int64), count - 1)
    return tuple(np.split(group, np.cumsum([len(own) for own in rows])[:-1])), count


def _told(join: NearestJoin, index: IndexSearch | None, others: frozenset[int] | None) -> str:
    """What is searched, in words."""
    nearest = join.nearest
    what = f"the {nearest.k} nearest by {join.metric} in column {'.'.join(nearest.path)!r}"
    if index is None:
        return f"{what}, compared with every vector in {len(join.scans)} scans: no index is used"
    probed = [(s.probes_in_words(nearest), len(s.index.partitions)) for s in index.segments]
    of = ", ".join(f"{first} of {there}" for first, there in probed)
    rest = f"; {len(others)} fragments compared with every vector" if others else ""
    return f"{what}, by index {index.name} ({index.segments[0].index.kind}), {of} partitions{rest}"
