"""The first rows of a scan in an order, found batch by batch from the sort columns alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.predicate.evaluate import column_values
from lance_spark.predicate.tree import Column


@dataclass(frozen=True)
class SortKey:
    """A column to sort by. Floating point numbers are not allowed, since Arrow orders them differently than Spark."""

    column: Column
    ascending: bool
    nulls_first: bool


class Top:
    """A running selection of the first `count` rows in the order of `keys`; a row is identified by a part and a position in it."""

    def __init__(self, keys: Sequence[SortKey], count: int) -> None:
        self._keys = keys
        self._count = count
        self._best: pa.Table | None = None
        # Nulls get a sort key of their own, because Arrow places the nulls of all keys at the same end.
        self._order = []
        for i, key in enumerate(keys):
            self._order.append((f"null{i}", "descending" if key.nulls_first else "ascending"))
            self._order.append((f"key{i}", "ascending" if key.ascending else "descending"))

    def add(self, part: int, positions: np.ndarray, batch: pa.RecordBatch) -> None:
        """Add the rows of `batch`, which are at `positions` of the part with number `part`."""
        columns: dict[str, pa.Array] = {}
        columns["part"] = pa.repeat(part, len(positions))
        columns["position"] = pa.array(positions, pa.int64())
        for i, key in enumerate(self._keys):
            values = column_values(key.column, batch)
            columns[f"null{i}"] = pc.cast(pc.is_null(values), pa.int8())
            columns[f"key{i}"] = values
        offered = self._candidates(pa.table(columns))
        both = offered if self._best is None else pa.concat_tables([self._best, offered])
        if both.num_rows >= self._count:
            both = both.take(pc.sort_indices(both, sort_keys=self._order)[: self._count])
        self._best = both

    def _candidates(self, offered: pa.Table) -> pa.Table:
        """Drop the rows that already lose to the worst selected row by the first key, soon most of them."""
        if self._best is None or self._best.num_rows < self._count or not self._count:
            return offered
        first, worst = self._keys[0], self._best["key0"][-1]
        if not worst.is_valid:
            return offered
        beats = pc.less_equal if first.ascending else pc.greater_equal
        return offered.filter(pc.fill_null(beats(offered["key0"], worst), first.nulls_first))

    def positions(self) -> dict[int, np.ndarray]:
        """The selected positions, ascending, by the number of the part."""
        if self._best is None:
            return {}
        parts, positions = (self._best[name].to_numpy() for name in ("part", "position"))
        return {int(part): np.sort(positions[parts == part]) for part in np.unique(parts)}
