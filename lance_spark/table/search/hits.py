"""The rows that a search found, best first, and fetching their columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from lance_spark.arrow.selection import joined
from lance_spark.metadata.row_columns import ROW_COLUMNS
from lance_spark.predicate import Predicate, evaluate
from lance_spark.schema.schema import quoted
from lance_spark.table.scan.indexed import with_tests
from lance_spark.table.scan.plan import ScanPlan, plan_tasks
from lance_spark.table.scan.take import take_by_row_id
from lance_spark.table.versions.log_rows import without_addresses
from lance_spark.table.versions.snapshot import Snapshot

_ADDRESS = next(f.name for f in ROW_COLUMNS if f.name == "_rowaddr")


@dataclass(frozen=True)
class Hits:
    """Rows that a search found, best first: their addresses (uint64) in the version, and the `columns` that the search adds to them.

    A row is there several times if it was found for several queries.
    """

    addresses: np.ndarray
    columns: pa.Table

    def __len__(self) -> int:
        return len(self.addresses)

    def window(self, offset: int, limit: int | None) -> Hits:
        """The hits without the first `offset`, at most `limit` of them."""
        stop = len(self) if limit is None else offset + limit
        return Hits(self.addresses[offset:stop], self.columns.slice(offset, max(stop - offset, 0)))

    def where(self, snapshot: Snapshot, predicate: Predicate | None) -> Hits:
        """The hits that satisfy a predicate, which may have columns that the search adds. Only its columns are read."""
        if predicate is None or not len(self):
            return self
        added = {*self.columns.column_names}.difference(snapshot.manifest.schema.names)
        # One column at least, so that the rows can be counted.
        names = tuple({*predicate.columns, quoted((_ADDRESS,))} - {quoted((name,)) for name in added})
        rows = take_by_row_id(snapshot, self.addresses, ScanPlan(names), are_addresses=True)
        for name in added:
            rows = rows.append_column(name, self.columns.column(name))
        found = [pc.fill_null(evaluate(with_tests(snapshot, predicate), batch), False) for batch in rows.combine_chunks().to_batches()]
        kept = joined(found).to_numpy(zero_copy_only=False)
        return Hits(self.addresses[kept], self.columns.filter(pa.array(kept)))


def fetched(snapshot: Snapshot, plan: ScanPlan, hits: Hits) -> pa.Table:
    """The columns of `plan`, those of the table, then the columns that the search adds, in the order of the hits."""
    rows = take_by_row_id(snapshot, hits.addresses, plan, are_addresses=True)
    rows = without_addresses(snapshot, rows, plan.fields(snapshot))
    if not rows.num_columns:
        return hits.columns
    for field, column in zip(hits.columns.schema, hits.columns.columns):
        rows = rows.append_column(field, column)
    return rows


def addresses_of(snapshot: Snapshot, predicate: Predicate, fragments: BitMap, use_scalar_index: bool) -> np.ndarray:
    """The addresses (uint64, ascending) of the rows of these fragments that satisfy the predicate."""
    plan = ScanPlan((_ADDRESS,), predicate, fragments=frozenset(fragments), use_scalar_index=use_scalar_index)
    found = [batch.column(0).to_numpy() for task in plan_tasks(snapshot, plan) for batch in task.read()]
    return np.sort(np.concatenate([np.empty(0, np.uint64), *found]))
