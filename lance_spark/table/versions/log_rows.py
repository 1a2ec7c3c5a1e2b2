"""What rows of a write-ahead log do not have: ids, versions and addresses, which are null, and a place in the table, which is refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.metadata.row_columns import FRAGMENT_ID, ROW_ADDRESS, ROW_COLUMNS, ROW_FILE, ROW_OFFSET
from lance_spark.predicate import Predicate
from lance_spark.schema.schema import Schema, quoted
from lance_spark.table.versions.snapshot import Snapshot

_PLACES = (FRAGMENT_ID, ROW_OFFSET, ROW_FILE)


def check_no_places(snapshot: Snapshot, fields: Schema) -> None:
    """Raise UnsupportedFeatureError if columns of a version that is read with its log tell where rows are in the table."""
    if found := [f.name for f in fields.fields if f.id in _PLACES]:
        what = f"rows of its write-ahead log are not in a file of the table, so that they have no {found[0]}"
        raise UnsupportedFeatureError(f"{snapshot}: {what}; merge the log first, or read the table without it by mem_wal=base")


def check_no_addresses(snapshot: Snapshot, predicate: Predicate) -> None:
    """Raise UnsupportedFeatureError for a condition with row columns, by which a search of a version with its log numbers rows."""
    names = {f.name for f in ROW_COLUMNS}.difference(snapshot.manifest.schema.names) if snapshot.log is not None else ()
    if found := sorted(name for name in names if quoted((name,)) in predicate.columns):
        what = "the condition of a search that also finds rows of the write-ahead log cannot have the column"
        raise UnsupportedFeatureError(f"{snapshot}: {what} {found[0]}; merge the log first, or leave it out by mem_wal=base")


def without_addresses(snapshot: Snapshot, rows: pa.Table, fields: Schema) -> pa.Table:
    """Rows for a user: those of the log have no address. Raises UnsupportedFeatureError, see `check_no_places`."""
    if snapshot.log is None:
        return rows
    check_no_places(snapshot, fields)
    for at, field in enumerate(fields.fields):
        if field.id == ROW_ADDRESS:
            first = pa.scalar(np.uint64(min(snapshot.log.first_address, 2**64 - 1)), pa.uint64())
            of_table = pc.less(rows.column(at), first)
            addresses = pc.if_else(of_table, rows.column(at), pa.scalar(None, pa.uint64()))
            rows = rows.set_column(at, rows.schema.field(at), addresses)
    return rows
