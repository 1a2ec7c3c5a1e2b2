"""Full-text search: the rows with the words of a query, best first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_spark.index.text.queries import TextQuery, leaves
from lance_spark.schema.schema import quoted
from lance_spark.table.scan.indexed import segments_of
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.search.text_query import columns_of, with_columns
from lance_spark.table.versions.snapshot import Snapshot

if TYPE_CHECKING:
    from lance_spark.table.search.hits import Hits
    from lance_spark.table.search.text_column import Scored, TextColumn

Answer = TypeVar("Answer")
SCORE = pa.field("_score", pa.float32())


@dataclass(frozen=True)
class TextSearch:
    """A full-text search; see `search.Query`.

    With `prefilter`, the best rows of those that satisfy the predicate are found; without, those of the best rows that satisfy it. That
    is the same without a limit, where the predicate thus always comes first. With `fast_search`, rows that no index covers are left out.
    """

    query: TextQuery
    prefilter: bool = False
    fast_search: bool = False

    @property
    def columns(self) -> pa.Schema:
        """See `search.Query`."""
        return pa.schema([SCORE])

    @property
    def comes_first(self) -> tuple[str, ...]:
        """See `search.Query`."""
        return ()

    @property
    def most_rows(self) -> int | None:
        """See `search.Query`."""
        return None

    def hits(self, snapshot: Snapshot, plan: ScanPlan) -> Hits:
        """See `search.Query`. Without `prefilter`, the predicate is evaluated for the best rows that the limit leaves."""
        from lance_spark.table.search.hits import Hits, addresses_of  # what reads files is imported late: it loads the decoders

        found = self._scored(snapshot, plan)
        addresses, scores = found.addresses, found.scores
        if self._filters_first(plan) and plan.predicate is not None:
            fragments = BitMap(np.unique(addresses >> np.uint64(32)).astype(np.uint32))
            kept = np.isin(addresses, addresses_of(snapshot, plan.predicate, fragments, plan.use_scalar_index))
            addresses, scores = addresses[kept], scores[kept]
        # Of rows with equal scores, those that come first in the table, or have lower row ids.
        order = np.lexsort((addresses, -scores))[: None if plan.limit is None else plan.offset + plan.limit]
        hits = Hits(addresses[order], pa.Table.from_arrays([pa.array(scores[order])], schema=self.columns))
        return hits if self._filters_first(plan) else hits.where(snapshot, plan.predicate)

    def _filters_first(self, plan: ScanPlan) -> bool:
        return self.prefilter or plan.limit is None

    def _most(self, plan: ScanPlan) -> int | None:
        """The number of the best rows that are needed; None if all are."""
        if plan.limit is None or (self.prefilter and plan.predicate is not None):
            return None
        return plan.offset + plan.limit

    def _scored(self, snapshot: Snapshot, plan: ScanPlan) -> Scored:
        """The rows that satisfy the query."""
        from lance_spark.table.search.text_scores import scored

        query = with_columns(self.query, indexed_columns(snapshot))
        return self._searched(snapshot, query, lambda columns: scored(query, columns, self._most(plan)))

    def _searched(self, snapshot: Snapshot, query: TextQuery, ask: Callable[[Mapping[str, TextColumn]], Answer]) -> Answer:
        """What `ask` says about the columns of the query. It is asked again without a segment that turns out to be damaged."""
        from lance_spark.index.damaged import DamagedSegmentError
        from lance_spark.table.search.text_column import TextColumn

        names = dict.fromkeys(name for leaf in leaves(query) for name in columns_of(leaf))
        without: dict[bytes, DamagedSegmentError] = {}
        while True:
            try:
                return ask({name: TextColumn(snapshot, name, self.fast_search, without) for name in names})
            except DamagedSegmentError as e:
                segments_of(snapshot).unused(e.index, e)
                without[e.index.uuid] = e

    def explain(self, snapshot: Snapshot, plan: ScanPlan) -> Sequence[str]:
        """See `search.Query`."""
        query = with_columns(self.query, indexed_columns(snapshot))
        columns = self._searched(snapshot, query, dict)
        filtered = (
            "none" if plan.predicate is None else f"{plan.predicate.text} ({'before' if self._filters_first(plan) else 'after'} the search)"
        )
        found = [(name, segment.index.name, len(index.parts)) for name, column in columns.items() for segment, index in column.segments]
        used = ", ".join(f"{index} (INVERTED) of column {name!r} with {parts} partitions" for name, index, parts in found)
        others = [f"scanned: column {name!r} in {len(column.others)} fragments" for name, column in columns.items() if column.others]
        return [f"query: {query}", f"filter: {filtered}", f"indexes: {used or 'none'}", *others]


def indexed_columns(snapshot: Snapshot) -> Sequence[str]:
    """The columns with a full-text index."""
    fields = {i for index in snapshot.manifest.indexes if index.details_type.endswith(".InvertedIndexDetails") for i in index.fields[:1]}
    return [quoted([f.name for f in path]) for path in snapshot.manifest.schema.paths() if path[-1].id in fields]
