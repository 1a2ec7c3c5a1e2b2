"""Searching by several routes, for vectors and for texts, and putting their rows into one order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_spark.errors import FunctionFailedError
from lance_spark.schema.schema import quoted
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.search.hybrid_query import Hybrid, Route
from lance_spark.table.search.nearest import Nearest
from lance_spark.table.search.text_search import SCORE, TextSearch
from lance_spark.table.search.vector_search import DISTANCE, VectorSearch
from lance_spark.table.versions.snapshot import Snapshot

if TYPE_CHECKING:
    from lance_spark.table.search.hits import Hits

RELEVANCE = pa.field("_relevance_score", pa.float32())


def _name(fuse: object) -> str:
    """The name of a way to fuse routes, or of a function."""
    return fuse if isinstance(fuse, str) else str(getattr(fuse, "__name__", type(fuse).__name__))


@dataclass(frozen=True)
class HybridSearch:
    """A search by several routes; see `search.Query`.

    Each route is a search of its own with the predicate, see `VectorSearch` and `TextSearch` for `prefilter` and `fast_search`. A row has
    the smallest distance and the highest score of the routes that find it, and null where none does.
    """

    hybrid: Hybrid
    prefilter: bool = False
    fast_search: bool = False

    @property
    def columns(self) -> pa.Schema:
        """See `search.Query`."""
        added = dict.fromkeys(DISTANCE if isinstance(route.query, Nearest) else SCORE for route in self.hybrid.routes)
        return pa.schema([*(field for field in (DISTANCE, SCORE) if field in added), RELEVANCE])

    @property
    def comes_first(self) -> tuple[str, ...]:
        """See `search.Query`."""
        return ()

    @property
    def most_rows(self) -> int | None:
        """See `search.Query`."""
        return self.hybrid.k

    def hits(self, snapshot: Snapshot, plan: ScanPlan) -> Hits:
        """See `search.Query`. Of rows with equal scores, those come first that are first in the table."""
        from lance_spark.table.search.hits import Hits  # what reads files is imported late: it loads the decoders

        found = [
            self._route(route).hits(snapshot, replace(plan, offset=0, limit=route.k)).window(0, route.k) for route in self.hybrid.routes
        ]
        rows, back = np.unique(np.concatenate([hits.addresses for hits in found]), return_inverse=True)
        relevance = np.zeros(len(rows), np.float64)
        values = {DISTANCE.name: np.full(len(rows), np.nan, np.float32), SCORE.name: np.full(len(rows), np.nan, np.float32)}
        start = 0
        for route, hits in zip(self.hybrid.routes, found):
            at = back.reshape(-1)[start : start + len(hits)]
            start += len(hits)
            is_vector = isinstance(route.query, Nearest)
            name = DISTANCE.name if is_vector else SCORE.name
            own = hits.columns.column(name).to_numpy()
            relevance[at] += route.weight * self._shares(-own if is_vector else own)
            values[name][at] = (np.fmin if is_vector else np.fmax)(values[name][at], own)
        if callable(self.hybrid.fuse):
            relevance = self._reranked(snapshot, rows, values)
        elif self.hybrid.fuse != "rrf":
            relevance /= sum(route.weight for route in self.hybrid.routes)
        order = np.lexsort((rows, -relevance))[: self.hybrid.k]
        columns = [pa.array(values[field.name][order], from_pandas=True) for field in self.columns if field != RELEVANCE]
        columns.append(pa.array(relevance[order].astype(np.float32)))
        return Hits(rows[order], pa.Table.from_arrays(columns, schema=self.columns))

    def _reranked(self, snapshot: Snapshot, rows: np.ndarray, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """What the user's function says of the rows at these addresses. Raises FunctionFailedError unless these are numbers."""
        from lance_spark.table.scan.take import take_by_row_id

        function = self.hybrid.fuse
        assert callable(function)
        found = take_by_row_id(snapshot, rows, ScanPlan((*self.hybrid.columns, quoted(("_rowaddr",)))), are_addresses=True)
        for name, own in values.items():
            if name in self.columns.names:
                found = found.append_column(name, pa.array(own, from_pandas=True))
        (batch,) = found.drop_columns(["_rowaddr"]).combine_chunks().to_batches() or [None]
        told = [] if batch is None else function(batch)
        if isinstance(told, pa.Array | pa.ChunkedArray):
            told = told.to_numpy(zero_copy_only=False) if isinstance(told, pa.Array) else told.to_numpy()
        try:
            relevance = np.asarray(told, np.float64)
        except (TypeError, ValueError) as e:
            raise FunctionFailedError(f"the function {_name(function)} must return a number for each row: {e}") from e
        if relevance.shape != rows.shape or np.isnan(relevance).any():
            shape = " and NaN or nulls in it" if relevance.shape == rows.shape else ""
            raise FunctionFailedError(
                f"the function {_name(function)} must return a number for each of {len(rows)} rows, not the shape {relevance.shape}{shape}"
            )
        return relevance

    def _route(self, route: Route) -> VectorSearch | TextSearch:
        if isinstance(route.query, Nearest):
            return VectorSearch(route.query, self.prefilter, self.fast_search)
        return TextSearch(route.query, self.prefilter, self.fast_search)

    def _shares(self, values: np.ndarray) -> np.ndarray:
        """What the rows of a route, best first, get by the route; greater `values` are better. A function needs none."""
        ranks = np.arange(len(values), dtype=np.float64)
        match self.hybrid.fuse:
            case "rrf":
                return 1 / (ranks + self.hybrid.rrf_k)
            case "mrr":
                return 1 / (ranks + 1)
        if not len(values) or values[0] == values[-1]:
            return np.ones(len(values))
        return np.asarray((values.astype(np.float64) - values[-1]) / (float(values[0]) - float(values[-1])))

    def explain(self, snapshot: Snapshot, plan: ScanPlan) -> Sequence[str]:
        """See `search.Query`."""
        lines = [f"hybrid: {len(self.hybrid.routes)} routes, k={self.hybrid.k}, fuse {_name(self.hybrid.fuse)}"]
        for number, route in enumerate(self.hybrid.routes):
            lines.append(f"route {number}: k={route.k}, weight {route.weight:g}")
            lines += [f"  {line}" for line in self._route(route).explain(snapshot, replace(plan, limit=route.k))]
        return lines
