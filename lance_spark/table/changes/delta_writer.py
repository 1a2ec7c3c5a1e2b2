"""The writer of one task's delta rows: records the rows that leave their fragments, and writes updated and inserted rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from lance_spark.arrow.selection import keep_rows, take_rows
from lance_spark.errors import on_failure
from lance_spark.metadata.bitmaps import bitmap_of
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.inserted_keys import KeyFilter
from lance_spark.metadata.row_address import by_fragment
from lance_spark.metadata.row_columns import with_row_columns
from lance_spark.metadata.row_ids import serialise_row_ids
from lance_spark.schema.schema import Schema, quoted
from lance_spark.table.changes.delta import (
    DELETED,
    INSERTED,
    OPERATION,
    REINSERTED,
    ROW_ADDRESS,
    UPDATED,
    DeltaPart,
    DeltaTarget,
    ambiguous,
)
from lance_spark.table.scan.rows_at import read_rows
from lance_spark.table.write.conform import conform, matched
from lance_spark.table.write.fragment_writer import FragmentWriter
from lance_spark.table.write.rules import Kind
from lance_spark.table.write.write import discard

_WAITING_ROWS = 1 << 16
_WAITING_BYTES = 32 << 20
"""Rows that wait in memory to be written: two batches of a scan, unless rows are wide."""


def write_rows(target: DeltaTarget, batches: Iterable[pa.RecordBatch]) -> DeltaPart:
    """Write the delta rows of one task. If this fails, the written files are deleted."""
    writer = DeltaWriter(target)
    with on_failure(writer.abort):
        for batch in batches:
            if batch.num_rows:
                writer.write(batch)
        return writer.finish()


class DeltaWriter:
    """Writes the delta rows of one task. Updated rows are buffered, up to a limit, until their other columns are read."""

    def __init__(self, target: DeltaTarget) -> None:
        self._target = target
        schema = target.write.schema
        places = matched(target.assigned, schema.fields)
        unassigned = tuple(f for f, at in zip(schema.fields, places, strict=True) if at is None)
        computed = {c.column.name for c in target.write.rules.generated.computed}
        self._unassigned = frozenset(f.name for f in unassigned)
        # The rules compute these anew.
        self._kept = tuple(f for f in unassigned if f.name not in computed)
        self._left: dict[int, BitMap] = {}
        self._moved, self._inserted = FragmentWriter(target.write), FragmentWriter(target.write)
        self._row_ids: list[np.ndarray] = []
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._counts = {DELETED: 0, UPDATED: 0, INSERTED: 0}
        self._keys = KeyFilter(target.key, not set(target.key) <= set(schema.fields)) if target.key else None

    def write(self, batch: pa.RecordBatch) -> None:
        """Add delta rows: the columns `OPERATION` and `ROW_ADDRESS`, and values by name.

        Columns that are missing in inserted rows have their defaults.
        """
        operations = batch.column(OPERATION).cast(pa.int32())
        for operation in pc.unique(operations).to_pylist():
            rows = keep_rows(batch, pc.equal(operations, operation))
            count = rows.num_rows
            if operation in (DELETED, UPDATED):
                count = self._leave(_addresses(rows), operation == DELETED and self._target.repeats)
            if operation == UPDATED:
                self._wait(rows)
            elif operation in (INSERTED, REINSERTED):
                self._insert(_values(rows, self._target.write.schema))
            elif operation != DELETED:
                raise ValueError(f"invalid row operation {operation}; expected 1 (delete), 2 (update), 3 (insert) or 4 (reinsert)")
            self._counts[INSERTED if operation == REINSERTED else operation] += count

    def finish(self) -> DeltaPart:
        """Complete the files and return the result."""
        self._move()
        moved, inserted = self._moved.finish(), self._inserted.finish()
        if self._row_ids:
            moved = _with_row_ids(moved, np.concatenate(self._row_ids))
        left = {fragment_id: _serialised(rows) for fragment_id, rows in self._left.items()}
        keys = None if self._keys is None else self._keys.finish()
        return DeltaPart(left, moved, inserted, self._counts[DELETED], self._counts[UPDATED], self._counts[INSERTED], keys)

    def abort(self) -> None:
        """Delete the files that were written."""
        discard(self._target.write, (*self._moved.abort(), *self._inserted.abort()))

    def _insert(self, rows: pa.RecordBatch) -> None:
        written = self._inserted.write(rows, Kind.INSERTED)
        if self._keys is not None:
            self._keys.add(lambda key: conform(_values(written, key), key))

    def _leave(self, addresses: np.ndarray, repeats: bool) -> int:
        """Note rows that leave their fragments, and return how many. With `repeats`, some may be noted already."""
        count = 0
        for fragment_id, offsets in by_fragment(np.unique(addresses) if repeats else addresses):
            rows = self._left.setdefault(fragment_id, BitMap())
            known, new = len(rows), bitmap_of(offsets)
            rows |= new
            self._left[fragment_id] = rows
            count += len(rows) - known
            if len(rows) != known + len(offsets) and not repeats:
                _refuse_duplicates(fragment_id, offsets, new, rows)
        return count

    def _wait(self, rows: pa.RecordBatch) -> None:
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._waiting_rows >= _WAITING_ROWS or self._waiting_bytes >= _WAITING_BYTES:
            self._move()

    def _move(self) -> None:
        """Write the buffered updated rows, sorted by address, with the table's values in columns that are not assigned."""
        if not self._waiting:
            return
        rows = pa.Table.from_batches(self._waiting).combine_chunks()
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
        rows = take_rows(rows, pc.sort_indices(rows[ROW_ADDRESS]))
        stable = self._target.snapshot.manifest.has_stable_row_ids
        names = [quoted([f.name]) for f in self._kept] + (["_rowid"] if stable else [])
        if names:
            fields = with_row_columns(self._target.snapshot.manifest.schema).select(names)
            known = read_rows(self._target.snapshot, _addresses(rows), fields)
            if stable:
                self._row_ids.append(known.column("_rowid").to_numpy())
            rows = self._with_kept(rows, known)
        for batch in _values(rows, self._target.write.schema).to_batches():
            self._moved.write(batch, Kind.UPDATED)

    def _with_kept(self, rows: pa.Table, known: pa.Table) -> pa.Table:
        """The rows with the table's values in the columns that are not assigned."""
        fields = self._target.write.schema.fields
        places = matched(rows.schema.names, fields)
        stale = {at for field, at in zip(fields, places, strict=True) if field.name in self._unassigned}
        rows = rows.select([i for i in range(rows.num_columns) if i not in stale])
        for name in (f.name for f in self._kept):
            rows = rows.append_column(known.schema.field(name), known.column(name))
        return rows


def _values(rows: pa.RecordBatch | pa.Table, schema: Schema) -> pa.RecordBatch | pa.Table:
    """The columns of `rows` that are in `schema`."""
    return rows.select(sorted(at for at in matched(rows.schema.names, schema.fields) if at is not None))


def _addresses(rows: pa.RecordBatch | pa.Table) -> np.ndarray:
    column = rows.column(ROW_ADDRESS)
    if column.null_count:
        raise ValueError(f"a deleted or updated row lacks its {ROW_ADDRESS}")
    return np.asarray(column.to_numpy()).astype(np.uint64, copy=False)


def _refuse_duplicates(fragment_id: int, offsets: np.ndarray, new: BitMap, rows: BitMap) -> None:
    ordered = np.sort(offsets)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    offset = int(twice[0]) if len(twice) else next(iter(new & rows))
    raise ambiguous(fragment_id, offset)


def _serialised(rows: BitMap) -> bytes:
    rows.run_optimize()
    return bytes(rows.serialize())


def _with_row_ids(fragments: Iterable[Fragment], ids: np.ndarray) -> tuple[Fragment, ...]:
    done, start = [], 0
    for fragment in fragments:
        stop = start + fragment.physical_rows
        done.append(replace(fragment, row_ids=serialise_row_ids(ids[start:stop])))
        start = stop
    return tuple(done)
