"""Searching for the nearest vectors: in the segments of an index, and by brute force among the rows that they do not cover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_spark.errors import LanceError
from lance_spark.table.scan.indexed import segments_of
from lance_spark.table.scan.parts import live_by_id
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.scan.runner import Here, Runner
from lance_spark.table.search.nearest import Nearest
from lance_spark.table.versions.snapshot import Snapshot

if TYPE_CHECKING:
    from lance_spark.index.vector.best import Best
    from lance_spark.table.search.hits import Hits
    from lance_spark.table.search.index_search import IndexSearch, LostSegment

DISTANCE = pa.field("_distance", pa.float32())
QUERY_INDEX = pa.field("query_index", pa.int32(), nullable=False)


@dataclass(frozen=True)
class VectorSearch:
    """A search for the nearest vectors; see `search.Query`.

    With `prefilter`, the nearest rows of those that satisfy the predicate are found; without, those of the nearest rows that satisfy it.
    With `fast_search`, rows that the index does not cover are left out: all, if there is no index.
    The tasks of `runner` compare vectors and codes.
    """

    nearest: Nearest
    prefilter: bool = False
    fast_search: bool = False
    runner: Runner = field(default=Here(), compare=False)

    @property
    def columns(self) -> pa.Schema:
        """See `search.Query`."""
        return pa.schema([QUERY_INDEX, DISTANCE] if self.nearest.many else [DISTANCE])

    @property
    def comes_first(self) -> tuple[str, ...]:
        """See `search.Query`."""
        return (QUERY_INDEX.name,) if self.nearest.many else ()

    @property
    def most_rows(self) -> int | None:
        """See `search.Query`."""
        return self.nearest.k * self.nearest.searches

    def hits(self, snapshot: Snapshot, plan: ScanPlan) -> Hits:
        """See `search.Query`. The rows of each query follow those of the one before."""
        # What reads files is imported late: it loads the decoders.
        from lance_spark.index.damaged import DamagedSegmentError
        from lance_spark.table.search.hits import Hits

        damaged: dict[bytes, LanceError] = {}
        while True:
            try:
                found = [best.found() for best in self._best(snapshot, plan, damaged)]
                break
            except DamagedSegmentError as e:
                segments_of(snapshot).unused(e.index, e)
                damaged[e.index.uuid] = e
        columns = [pa.array(np.concatenate([distances for distances, _ in found]))]
        if self.nearest.many:
            columns.insert(0, pa.array(np.repeat(np.arange(len(found), dtype=np.int32), [len(rows) for _, rows in found])))
        hits = Hits(np.concatenate([rows for _, rows in found]), pa.Table.from_arrays(columns, schema=self.columns))
        return hits if self.prefilter else hits.where(snapshot, plan.predicate)

    def _best(self, snapshot: Snapshot, plan: ScanPlan, damaged: Mapping[bytes, LanceError]) -> Sequence[Best]:
        """The best rows of each query."""
        from lance_spark.index.vector.best import Best
        from lance_spark.table.search.brute_force import search
        from lance_spark.table.search.index_search import index_search, lost_segments

        nearest = self.nearest
        best = [Best(nearest.k, nearest.distance_range) for _ in range(nearest.searches)]
        index, lost = index_search(snapshot, nearest, damaged), lost_segments(snapshot, nearest, damaged)
        metric, others = self.metric(index, lost), self.others(snapshot, index, lost)
        if index is not None:
            self._search_index(snapshot, plan, index, best, bool(others))
        if others is None or others:
            predicate = plan.predicate if self.prefilter else None
            search(snapshot, nearest, metric, predicate, others, best, self.runner)
        return best

    def _search_index(self, snapshot: Snapshot, plan: ScanPlan, index: IndexSearch, best: Sequence[Best], among_others: bool) -> None:
        """Add the rows that the index finds to the best of each query.

        Distances of codes and exact ones cannot be compared: if there are others, all are exact. If the index does not find the share
        of the rows that is asked for, its rows are compared with the queries.
        """
        from lance_spark.index.vector.best import Best
        from lance_spark.table.search.brute_force import search
        from lance_spark.table.search.hits import addresses_of
        from lance_spark.table.search.index_search import Refinement
        from lance_spark.table.search.late_interaction import LateInteraction
        from lance_spark.table.search.segments import wanted_of
        from lance_spark.table.search.settled import settled

        allowed, share = None, 1.0
        if self.prefilter and plan.predicate is not None:
            allowed = addresses_of(snapshot, plan.predicate, index.covered, plan.use_scalar_index)
            share = len(allowed) / max(segments_of(snapshot).live_rows(index.covered), 1)
        chosen = settled(index.segments, self.nearest, share)
        nearest = chosen.nearest
        if not chosen.in_reach:
            predicate = plan.predicate if self.prefilter else None
            search(snapshot, nearest, index.metric, predicate, frozenset(index.covered), best, self.runner)
            return
        if nearest.several:
            LateInteraction(index, nearest, allowed, self.runner).add_to(best[0])
            return
        exact = among_others or index.has_log or nearest.refine_factor is not None or index.may_be_stale
        wanted = wanted_of(nearest, index.metric, exact)
        if not exact:
            index.search(nearest, wanted, allowed, best, self.runner)
            return
        found = [Best(wanted.count, wanted.within) for _ in best]
        index.search(nearest, wanted, allowed, found, self.runner)
        candidates = {number: own.found()[1] for number, own in enumerate(found)}
        for number, own in Refinement(index, nearest, wanted, allowed).best(candidates).items():
            best[number].add(*own.found())

    def bytes_compared(self, snapshot: Snapshot) -> int:
        """About how many bytes of codes and vectors the search compares with queries."""
        from lance_spark.table.search.index_search import index_search, lost_segments
        from lance_spark.table.search.settled import settled

        nearest, index = self.nearest, index_search(snapshot, self.nearest)
        total = 0.0
        if index is not None and not (chosen := settled(index.segments, nearest)).in_reach:
            total = float(segments_of(snapshot).live_rows(index.covered) * nearest.queries.nbytes)
        elif index is not None:
            nearest = chosen.nearest
        for searched in () if index is None or total else index.segments:
            _, probes = searched.first_probes(nearest)
            share = probes / max(len(searched.index.partitions), 1)
            total += sum(file.size for file in searched.segment.index.files) * share * len(nearest.queries)
        others = self.others(snapshot, index, lost_segments(snapshot, nearest))
        rows = sum(rows for fragment, rows in live_by_id(snapshot).items() if others is None or fragment in others)
        return int(total) + rows * nearest.queries.nbytes

    def others(self, snapshot: Snapshot, index: IndexSearch | None, lost: Sequence[LostSegment]) -> frozenset[int] | None:
        """The fragments whose vectors are compared with the query (None: all): those with rows that the index does not cover.

        The rows of `lost` segments, too.
        """
        if self.fast_search:
            unsearched = BitMap().union(*(own.segment.covered for own in lost))
            return frozenset(unsearched - (BitMap() if index is None else index.covered))
        if index is None:
            return None
        return frozenset(fragment for fragment, rows in live_by_id(snapshot).items() if rows and fragment not in index.covered)

    def metric(self, index: IndexSearch | None, lost: Sequence[LostSegment]) -> str:
        """The metric of the search: the requested one, or else that of the index, also of a lost one, or else that of the type."""
        if self.nearest.metric is not None:
            return self.nearest.metric
        if index is not None:
            return index.metric
        return lost[0].metric if lost else self.nearest.default_metric

    def explain(self, snapshot: Snapshot, plan: ScanPlan) -> Sequence[str]:
        """See `search.Query`."""
        from lance_spark.table.search.index_search import index_search, lost_segments
        from lance_spark.table.search.settled import Settled, settled

        nearest, index = self.nearest, index_search(snapshot, self.nearest)
        lost = lost_segments(snapshot, nearest)
        others = self.others(snapshot, index, lost)
        live = live_by_id(snapshot)
        text = "none" if plan.predicate is None else f"{plan.predicate.text} ({'before' if self.prefilter else 'after'} the search)"
        lines = [f"nearest: column {'.'.join(nearest.path)!r}, k={nearest.k}, metric {self.metric(index, lost)}", f"filter: {text}"]
        chosen = Settled(nearest) if index is None else settled(index.segments, nearest)
        nearest = chosen.nearest
        for searched in () if index is None or not chosen.in_reach else index.segments:
            name, covered = searched.segment.index.name, searched.segment.covered
            probed, there = searched.probes_in_words(nearest), len(searched.index.partitions)
            lines.append(
                f"index: {name} ({searched.index.kind}), a segment of {sum(live[f] for f in covered)} rows in {len(covered)} fragments; "
                f"{probed} of {there} partitions are searched, and up to {searched.most_probes(nearest)} until {nearest.k} rows are found"
            )
        if index is None:
            lines.append("indexes: none")
        if (words := chosen.in_words()) is not None:
            lines.append(words)
        if index is not None and chosen.in_reach and nearest.several and nearest.refine_factor is None:
            lines.append("distances are computed from the vectors of all rows that the index finds for a vector of the query")
        elif index is not None and chosen.in_reach and (nearest.refine_factor is not None or others):
            lines.append(f"distances are computed from the vectors of {nearest.k * (nearest.refine_factor or 1)} rows of the index")
        compared = {f for f in live if others is None or f in others}
        if index is not None and not chosen.in_reach:
            compared |= {*index.covered}
        found = compared if index is None else compared | {*index.covered}
        if compared or not self.fast_search:
            lines.append(f"compared with every vector: {sum(live[f] for f in compared)} rows in {len(compared)} fragments")
        if self.fast_search:
            left = [rows for f, rows in live.items() if f not in found]
            lines.append(f"left out: {sum(left)} rows in {len(left)} fragments")
        return lines
