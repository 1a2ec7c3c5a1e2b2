"""Searching for the nearest vectors: the rows that brute force finds, with what the search adds to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_spark.table.scan.plan import ScanPlan, all_live_rows
from lance_spark.table.search.nearest import Nearest
from lance_spark.table.versions.snapshot import Snapshot

if TYPE_CHECKING:
    from lance_spark.table.search.hits import Hits

DISTANCE = pa.field("_distance", pa.float32())
QUERY_INDEX = pa.field("query_index", pa.int32(), nullable=False)


@dataclass(frozen=True)
class VectorSearch:
    """A search for the nearest vectors; see `search.Query`.

    With `prefilter`, the nearest rows of those that satisfy the predicate are found; without, those of the nearest rows that satisfy it.
    """

    nearest: Nearest
    prefilter: bool = False

    @property
    def columns(self) -> pa.Schema:
        """See `search.Query`."""
        return pa.schema([QUERY_INDEX, DISTANCE] if self.nearest.many else [DISTANCE])

    @property
    def comes_first(self) -> tuple[str, ...]:
        """See `search.Query`."""
        return (QUERY_INDEX.name,) if self.nearest.many else ()

    def hits(self, snapshot: Snapshot, plan: ScanPlan) -> Hits:
        """See `search.Query`. The rows of each query follow those of the one before."""
        from lance_spark.index.vector.best import Best
        from lance_spark.table.search.brute_force import search
        from lance_spark.table.search.hits import Hits

        nearest = self.nearest
        best = [Best(nearest.k, nearest.distance_range) for _ in range(1 if nearest.several else len(nearest.queries))]
        search(snapshot, nearest, self._metric, plan.predicate if self.prefilter else None, None, best)
        found = [own.found() for own in best]
        columns = [pa.array(np.concatenate([distances for distances, _ in found]))]
        if nearest.many:
            columns.insert(0, pa.array(np.repeat(np.arange(len(found), dtype=np.int32), [len(rows) for _, rows in found])))
        hits = Hits(np.concatenate([rows for _, rows in found]), pa.Table.from_arrays(columns, schema=self.columns))
        return hits if self.prefilter else hits.where(snapshot, plan.predicate)

    @property
    def _metric(self) -> str:
        return self.nearest.metric or self.nearest.default_metric

    def explain(self, snapshot: Snapshot, plan: ScanPlan) -> Sequence[str]:
        """See `search.Query`."""
        live = all_live_rows(snapshot)
        filtered = "none" if plan.predicate is None else f"{plan.predicate.text} ({'before' if self.prefilter else 'after'} the search)"
        return [
            f"nearest: column {'.'.join(self.nearest.path)!r}, k={self.nearest.k}, metric {self._metric}",
            f"filter: {filtered}",
            "indexes: none",
            f"compared with every vector: {sum(live)} rows in {len(live)} fragments",
        ]
