"""Rows at given addresses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import row_positions, take
from lance_spark.errors import LanceError
from lance_spark.metadata.deletion_file import read_deletions
from lance_spark.metadata.row_address import by_fragment
from lance_spark.metadata.row_columns import with_row_columns
from lance_spark.schema.schema import Schema, quoted
from lance_spark.table.scan.fragment_reader import FragmentReader
from lance_spark.table.scan.plan import BATCH_ROWS
from lance_spark.table.scan.projection import Projection
from lance_spark.table.versions.snapshot import Snapshot


def read_rows(snapshot: Snapshot, addresses: np.ndarray, fields: Schema) -> pa.Table:
    """Read the rows at these ascending addresses. Raises LanceError for an address without a row or with a deleted row."""
    batches: list[pa.RecordBatch] = []
    columns = Projection.of(fields)
    groups = list(by_fragment(addresses))
    fragments = snapshot.manifest.lazy_fragments.of_ids([i for i, _ in groups])
    for fragment_id, offsets in groups:
        if fragment_id not in fragments:
            raise LanceError(f"{snapshot} has no fragment {fragment_id}, but a row address refers to it")
        fragment = fragments[fragment_id]
        deleted = read_deletions(fragment, snapshot.locations)
        if len(gone := np.intersect1d(offsets, deleted)):
            raise LanceError(f"{snapshot}: row {gone[0]} of fragment {fragment_id} is deleted and cannot be changed")
        positions = offsets.astype(np.int64) - np.searchsorted(deleted, offsets)
        reader = FragmentReader(fragment, snapshot.locations, snapshot.manifest.has_stable_row_ids)
        batches.extend(reader.read(positions, columns, BATCH_ROWS))
    return pa.Table.from_batches(batches, schema=columns.target)


def rows_in_order(snapshot: Snapshot, addresses: np.ndarray, fields: Schema) -> pa.RecordBatch:
    """The rows at these addresses, in their order; addresses may repeat."""
    distinct, places = np.unique(addresses, return_inverse=True)
    rows, order = read_rows(snapshot, distinct, fields), row_positions(places)
    return pa.RecordBatch.from_arrays([take(column.combine_chunks(), order) for column in rows.columns], schema=rows.schema)


def rows_at(snapshot: Snapshot, addresses: np.ndarray, names: Sequence[str]) -> pa.RecordBatch:
    """Top-level columns (exact names), or row columns, of the rows at these addresses, in their order; addresses may repeat."""
    if not names:
        return pa.RecordBatch.from_arrays([], schema=pa.schema([]))
    fields = with_row_columns(snapshot.manifest.schema).select([quoted([name]) for name in names])
    rows = rows_in_order(snapshot, addresses, fields)
    return pa.RecordBatch.from_arrays(rows.columns, names=list(names))
