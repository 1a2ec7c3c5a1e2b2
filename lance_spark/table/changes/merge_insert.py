"""MERGE of in-memory rows into a table by key, in this process: updates, inserts and deletes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.arrow.equal_keys import equal_keys
from lance_spark.arrow.selection import keep_rows, take_rows
from lance_spark.errors import AmbiguousMergeError, MatchedRowsError, SchemaMismatchError, UnsupportedFeatureError, check_type
from lance_spark.metadata.inserted_keys import primary_key
from lance_spark.predicate import evaluate, parse
from lance_spark.schema.schema import Schema, from_arrow, quoted
from lance_spark.table.changes.delta import DELETED, INSERTED, OPERATION, ROW_ADDRESS, UPDATED, DeltaPart, DeltaTarget, Intent
from lance_spark.table.changes.delta_writer import write_rows
from lance_spark.table.changes.row_changes import DeltaPlan, RowChanges, RowPlan, change_rows
from lance_spark.table.changes.update import assigned_ids
from lance_spark.table.scan.plan import ScanPlan, plan_tasks
from lance_spark.table.scan.rows_at import rows_at
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.conform import check_fits, conform, matched
from lance_spark.table.write.nested_values import completed, lacks_fields
from lance_spark.table.write.options import NO_OPTIONS, WriteOptions
from lance_spark.table.write.write import Data, read_all

Result = TypeVar("Result")
_CHUNK_ROWS = 1 << 20
"""Rows of the table that are joined with the source at once."""


@dataclass(frozen=True)
class MergeInsert:
    """The actions of a merge: on matched rows (`update`, `delete`, `fail`), on source rows without a match (`insert`), and on table rows
    without a match (`delete_by_source`: a condition, "" for all rows, None for none). `update_condition` may refer to `source.x` and
    `target.x`.
    """

    on: tuple[str, ...]
    update: bool = False
    update_condition: str | None = None
    delete: bool = False
    fail: bool = False
    insert: bool = False
    delete_by_source: str | None = None


def merge_insert(snapshot: Snapshot, merge: MergeInsert, source: pa.Table, options: WriteOptions) -> RowChanges:
    """Merge the rows of `source`. Raises AmbiguousMergeError if two of them change the same row of the table, and MatchedRowsError."""
    if merge.update + merge.delete + merge.fail > 1:
        raise ValueError("matched rows can be updated, be deleted, or be an error: call only one when_matched_... method")
    for name in merge.on:
        check_type("the name of a key column", name, str, "text")
    if not (merge.update or merge.delete or merge.fail or merge.insert or merge.delete_by_source is not None):
        raise ValueError("the merge has no action; call at least one when_... method")

    def plan(snapshot: Snapshot) -> RowPlan:
        schema = snapshot.manifest.schema
        places = matched(source.column_names, schema.fields)
        names = {at: f.name for f, at in zip(schema.fields, places, strict=True)}
        rows = source.rename_columns([names.get(i, name) for i, name in enumerate(source.column_names)])
        keys = [schema.resolve(quoted([key]))[0].name for key in merge.on]
        if missing := [key for key in keys if key not in rows.column_names]:
            raise SchemaMismatchError(f"the source lacks the key {', '.join(map(repr, missing))}")
        check_fits(rows.schema, Schema(tuple(f for f in schema.fields if f.name in rows.column_names or not f.nullable)))
        assigned = tuple(name for name in rows.column_names)

        def parts(delta: DeltaTarget) -> list[DeltaPart]:
            return [write_rows(delta, _delta_rows(snapshot, merge, keys, rows))]

        key = primary_key(schema) if merge.insert else ()
        told = key if {f.name for f in key} <= {*keys} else ()
        return RowPlan(DeltaPlan(snapshot, parts, Intent(assigned=assigned_ids(schema, assigned)), assigned, told).write)

    return change_rows(snapshot, options, plan)


def _delta_rows(snapshot: Snapshot, merge: MergeInsert, keys: Sequence[str], source: pa.Table) -> Iterator[pa.RecordBatch]:
    fields = Schema(tuple(f for f in snapshot.manifest.schema.fields if f.name in keys))
    batches = [conform(batch, fields) for batch in source.to_batches()]
    wanted = pa.Table.from_batches(batches, schema=pa.schema([f.to_arrow() for f in fields.fields]))
    used = np.zeros(source.num_rows, dtype=np.int64)
    for target in _chunks(snapshot, merge, keys):
        place, found = equal_keys(wanted, target, fields.names)
        np.add.at(used, place, 1)
        if merge.fail and len(found):
            row = target.select(keys).slice(int(found[0]), 1).to_pylist()[0]
            key = ", ".join(f"{name!r} = {value!r}" for name, value in row.items())
            raise MatchedRowsError(f"{snapshot}: the source has {len(found)} rows that are in the table already, such as that with {key}")
        if (merge.update or merge.delete) and len(np.unique(found)) < len(found):
            twice = np.sort(found)
            address = int(target[ROW_ADDRESS].to_numpy()[twice[1:][twice[1:] == twice[:-1]][0]])
            raise AmbiguousMergeError(f"{snapshot}: more than one row of the source changes the row at address {address}", address)
        yield from _matched(merge, snapshot, target, source, place, found)
        if merge.delete_by_source is not None:
            yield from _unmatched(merge, snapshot, target, found)
    if merge.insert and (used == 0).any():
        yield from _with_operation(take_rows(source, pa.array(np.flatnonzero(used == 0))), INSERTED, None)


def _chunks(snapshot: Snapshot, merge: MergeInsert, keys: Sequence[str]) -> Iterator[pa.Table]:
    """Read the columns of the table that the merge needs, in large batches."""
    schema = snapshot.manifest.schema
    columns = [quoted([key]) for key in keys]
    if merge.update_condition is not None:
        columns = [quoted([f.name]) for f in schema.fields]
    elif merge.delete_by_source:
        columns += parse(merge.delete_by_source, schema).columns
    waiting: list[pa.RecordBatch] = []
    for task in plan_tasks(snapshot, ScanPlan(columns=(*dict.fromkeys(columns), ROW_ADDRESS))):
        for batch in task.read():
            waiting.append(batch)
            if sum(b.num_rows for b in waiting) >= _CHUNK_ROWS:
                yield pa.Table.from_batches(waiting)
                waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _matched(
    merge: MergeInsert, snapshot: Snapshot, target: pa.Table, source: pa.Table, place: np.ndarray, found: np.ndarray
) -> Iterator[pa.RecordBatch]:
    if not len(place) or not (merge.update or merge.delete):
        return
    addresses = target[ROW_ADDRESS].take(pa.array(found))
    if merge.delete:
        yield from _with_operation(pa.table({}), DELETED, addresses)
        return
    rows = take_rows(source, pa.array(place))
    if merge.update_condition is not None:
        old = take_rows(target.drop_columns([ROW_ADDRESS]), pa.array(found))
        chosen = pc.fill_null(_condition(merge.update_condition, rows, old), False)
        rows, addresses = rows.filter(chosen), addresses.filter(chosen)
    yield from _with_operation(_with_nested(rows, snapshot, addresses), UPDATED, addresses)


def _with_nested(rows: pa.Table, snapshot: Snapshot, addresses: pa.ChunkedArray) -> pa.Table:
    """The rows, with the table's values in nested fields that the source lacks."""
    fields = [f for f in snapshot.manifest.schema.fields if f.name in rows.column_names and lacks_fields(rows[f.name].type, f)]
    known = rows_at(snapshot, addresses.to_numpy(), [f.name for f in fields])
    for field, old in zip(fields, known.columns):
        new = completed(rows[field.name].combine_chunks(), old, field, field.name)
        rows = rows.set_column(rows.column_names.index(field.name), field.name, new)
    return rows


def _condition(text: str, source: pa.Table, target: pa.Table) -> pa.BooleanArray:
    """Parse a condition on pairs of rows, whose columns are named `source.x` and `target.x`."""
    sides = [pa.StructArray.from_arrays([c.combine_chunks() for c in t.columns], fields=list(t.schema)) for t in (source, target)]
    pairs = pa.RecordBatch.from_arrays(sides, names=["source", "target"])
    return evaluate(parse(text, from_arrow(pairs.schema)), pairs)


def _unmatched(merge: MergeInsert, snapshot: Snapshot, target: pa.Table, found: np.ndarray) -> Iterator[pa.RecordBatch]:
    kept = np.ones(target.num_rows, dtype=bool)
    kept[found] = False
    rows = target.filter(pa.array(kept)).combine_chunks()
    for batch in rows.to_batches():
        if merge.delete_by_source:
            batch = keep_rows(batch, pc.fill_null(evaluate(parse(merge.delete_by_source, snapshot.manifest.schema), batch), False))
        yield from _with_operation(pa.table({}), DELETED, batch.column(ROW_ADDRESS))


def _with_operation(rows: pa.Table, operation: int, addresses: pa.Array | pa.ChunkedArray | None) -> Iterator[pa.RecordBatch]:
    count = rows.num_rows if addresses is None else len(addresses)
    columns = {OPERATION: pa.array(np.full(count, operation, np.int32))}
    columns[ROW_ADDRESS] = pa.nulls(count, pa.uint64()) if addresses is None else addresses
    yield from pa.table({**columns, **dict(zip(rows.column_names, rows.columns))}).combine_chunks().to_batches()


def key_names(snapshot: Snapshot, on: Sequence[str]) -> tuple[str, ...]:
    """The key columns of a merge: those in `on`, or if it is empty, those of the table's primary key.

    Raises ValueError if there is none, and UnsupportedFeatureError for a primary key of fields in structs.
    """
    schema = snapshot.manifest.schema
    if on:
        return tuple(on)
    key = primary_key(schema)
    if not key:
        raise ValueError(f"{snapshot} has no primary key, so the merge needs the names of key columns: give `on`, or declare a primary key")
    top = {f.id for f in schema.fields}
    if nested := [f.name for f in key if f.id not in top]:
        raise UnsupportedFeatureError(f"{snapshot}: {', '.join(map(repr, nested))} of the primary key is in a struct; give columns in `on`")
    return tuple(f.name for f in key)


@dataclass(frozen=True)
class MergeInsertBuilder(Generic[Result]):
    """A builder of a merge, with pylance's names."""

    snapshot: Snapshot
    merge: MergeInsert
    result: Callable[[RowChanges], Result]

    def when_matched_update_all(self, condition: str | None = None) -> MergeInsertBuilder[Result]:
        """Update matched rows with the columns of the source; `condition` may name `source.x` and `target.x`.

        Columns and nested fields that the source lacks keep their values; items of lists are taken by position.
        """
        return self._with(update=True, update_condition=condition)

    def when_matched_delete(self) -> MergeInsertBuilder[Result]:
        """Delete matched rows of the table."""
        return self._with(delete=True)

    def when_matched_fail(self) -> MergeInsertBuilder[Result]:
        """Raise MatchedRowsError, and change nothing, if a row of the source matches a row of the table."""
        return self._with(fail=True)

    def when_not_matched_insert_all(self) -> MergeInsertBuilder[Result]:
        """Insert rows of the source that match no row of the table; columns that the source lacks are null.

        If the key columns contain the table's primary key, the transaction carries the new keys: of two writers that insert one key at
        the same time, the second finds the row of the first.
        """
        return self._with(insert=True)

    def when_not_matched_by_source_delete(self, expr: str | None = None) -> MergeInsertBuilder[Result]:
        """Delete rows of the table that no row of the source matches, if they satisfy `expr`."""
        return self._with(delete_by_source=expr or "")

    def execute(self, data: Data) -> Result:
        """Merge the rows, which are kept in memory.

        Raises AmbiguousMergeError if two of them change the same row of the table, and MatchedRowsError; see `when_matched_fail`.
        """
        return self.result(merge_insert(self.snapshot, self.merge, read_all(data), NO_OPTIONS))

    def _with(self, **changes: Any) -> MergeInsertBuilder[Result]:
        return replace(self, merge=replace(self.merge, **changes))
