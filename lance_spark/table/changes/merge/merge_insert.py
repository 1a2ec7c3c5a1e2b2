"""MERGE of in-memory rows into a table by key, in this process: updates, inserts and deletes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

import pyarrow as pa

from lance_spark.display.arguments import known_arguments
from lance_spark.errors import AmbiguousMergeError, MatchedRowsError, SchemaMismatchError, UnsupportedFeatureError, check_type
from lance_spark.metadata.row_columns import ROW_COLUMNS, with_row_columns
from lance_spark.predicate import Predicate, parse
from lance_spark.schema.primary_key import primary_key
from lance_spark.schema.schema import Field, Schema, from_arrow, quoted
from lance_spark.table.changes.delta import DELETED, INSERTED, UPDATED, DeltaPart, DeltaTarget
from lance_spark.table.changes.merge.pairing import SOURCE, TARGET, ByKeys, Rows, columns_of
from lance_spark.table.changes.merge.rows import MergeClause, MergeRows, ambiguous_row, column, merge_in_tasks, plan_merge
from lance_spark.table.changes.row_changes import DeltaPlan, RowChanges, RowPlan, change_rows
from lance_spark.table.scan.runner import Here
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.conform import check_fits, matched
from lance_spark.table.write.nested_values import lacks_fields
from lance_spark.table.write.options import NO_OPTIONS, WriteOptions
from lance_spark.table.write.sources import Data, read_all

Result = TypeVar("Result")


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
    check_actions(merge)
    return change_rows(snapshot, options, partial(_plan, merge, source))


def check_actions(merge: MergeInsert) -> None:
    """Raise ValueError for a merge without an action, or with two of matched rows, and TypeError for keys that are no names."""
    if merge.update + merge.delete + merge.fail > 1:
        raise ValueError("matched rows can be updated, be deleted, or be an error: call only one when_matched_... method")
    for name in merge.on:
        check_type("the name of a key column", name, str, "text")
    if not (merge.update or merge.delete or merge.fail or merge.insert or merge.delete_by_source is not None):
        raise ValueError("the merge has no action; call at least one when_... method")


@dataclass(frozen=True)
class Prepared:
    """A merge for a table: its `rows`, the names of its `keys`, the columns that updates assign, and the primary key if that is named."""

    rows: MergeRows
    keys: tuple[str, ...]
    assigned: tuple[str, ...]
    primary_key: tuple[Field, ...]


def _plan(merge: MergeInsert, source: pa.Table, snapshot: Snapshot) -> RowPlan:
    found = prepared(merge, source, snapshot)

    def parts(delta: DeltaTarget) -> list[DeltaPart]:
        try:
            return merge_in_tasks(found.rows, snapshot, delta, Here(), plan_merge(found.rows, snapshot, Here.cores))
        except AmbiguousMergeError as e:
            raise ambiguous_row(e.address, snapshot, found.keys) from e

    return RowPlan(DeltaPlan(snapshot, parts, assigned=found.assigned, key=found.primary_key).write)


def prepared(merge: MergeInsert, source: pa.Table, snapshot: Snapshot) -> Prepared:
    """The merge of the rows of `source` into a version. Raises SchemaMismatchError for rows that do not fit."""
    schema = snapshot.manifest.schema
    places = matched(source.column_names, schema.fields)
    names = {at: f.name for f, at in zip(schema.fields, places, strict=True)}
    rows = source.rename_columns([names.get(i, name) for i, name in enumerate(source.column_names)])
    keys = tuple(schema.resolve(quoted([key]))[0].name for key in merge.on)
    if missing := [key for key in keys if key not in rows.column_names]:
        raise SchemaMismatchError(f"the source lacks the key {', '.join(map(repr, missing))}")
    if not (merge.update or merge.insert or merge.fail):
        rows = rows.select(keys)  # as in pylance, the other columns of a source do not matter to deletes
    # Updated rows keep the values of columns that the source lacks; inserted rows have none.
    written = (f for f in schema.fields if f.name in rows.column_names or (merge.insert and not f.nullable))
    check_fits(rows.schema, Schema(tuple(written)))
    pairing = _Refused(rows, keys, schema, str(snapshot)) if merge.fail else ByKeys(rows, keys, schema)
    merged = MergeRows(pairing, tuple(_clauses(merge, rows.schema, schema)))
    assigned = tuple(rows.column_names)
    key = primary_key(schema) if merge.insert else ()
    told = key if {f.name for f in key} <= {*keys} else ()
    return Prepared(merged, keys, assigned, told)


def _clauses(merge: MergeInsert, source: pa.Schema, table: Schema) -> Iterator[MergeClause]:
    """What the actions do with pairs, in which the rows are the structs `target` and `source`."""
    children = with_row_columns(table).fields
    target = replace(from_arrow(pa.schema([(TARGET, pa.struct([]))])).fields[0], children=children)
    values = {name: column(SOURCE, name) for name in source.names}
    fields = {f.name: f for f in table.fields}
    if merge.update:
        condition = None
        if merge.update_condition is not None:
            rows = from_arrow(pa.schema([(SOURCE, pa.struct(list(source)))])).fields
            condition = _condition(merge.update_condition, _Pair((target, *rows)))
        keeps = tuple(f.name for f in source if lacks_fields(f.type, fields[f.name]))
        yield MergeClause("matched", UPDATED, condition, values, keeps)
    if merge.delete:
        yield MergeClause("matched", DELETED, None, {})
    if merge.insert:
        yield MergeClause("not matched", INSERTED, None, values)
    if merge.delete_by_source is not None:
        where = _condition(merge.delete_by_source, _Target((target,))) if merge.delete_by_source else None
        yield MergeClause("not matched by source", DELETED, where, {})


def _condition(text: str, rows: Schema) -> Predicate:
    condition = parse(text, rows)
    if "_rowoffset" in columns_of([condition], TARGET):
        raise UnsupportedFeatureError(f"a condition of merge_insert cannot use _rowoffset, which only scans know; use _rowaddr: {text}")
    return condition


@dataclass(frozen=True)
class _Pair(Schema):
    """The structs of both sides. As in pylance, a row column is the table's also if a condition names no side."""

    def resolve(self, path: str) -> tuple[Field, ...]:
        """The struct and the fields down to the one with this path."""
        names = {f.name for f in ROW_COLUMNS}
        names_no_side = path.partition(".")[0].lower() in names
        return _Target(self.fields).resolve(path) if names_no_side else super().resolve(path)


@dataclass(frozen=True)
class _Target(Schema):
    """The struct with the table's columns, which a condition names without the struct."""

    def resolve(self, path: str) -> tuple[Field, ...]:
        """The struct and the fields down to the one with this path."""
        return (self.fields[0], *Schema(self.fields[0].children).resolve(path))


@dataclass(frozen=True)
class _Refused(ByKeys):
    """Rows of a source of which none may be in the table."""

    table: str

    def pairs(self, batch: pa.RecordBatch) -> Iterator[Rows]:
        """Raises MatchedRowsError if there is a pair."""
        for rows, source in super().pairs(batch):
            if len(rows):
                row = batch.select(list(self.columns)).slice(int(rows[0]), 1).to_pylist()[0]
                key = ", ".join(f"{name!r} = {value!r}" for name, value in row.items())
                raise MatchedRowsError(
                    f"{self.table}: the source has {len(rows)} rows that are in the table already, such as that with {key}"
                )
            yield rows, source


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


@known_arguments
@dataclass(frozen=True)
class MergeInsertBuilder(Generic[Result]):
    """A builder of a merge, with pylance's names. `run` merges rows as it says."""

    uri: str
    merge: MergeInsert
    run: Callable[[MergeInsert, pa.Table, WriteOptions], Result]
    options: WriteOptions = NO_OPTIONS

    def __repr__(self) -> str:
        return f"MergeInsertBuilder({self.uri!r}, on={list(self.merge.on)!r})"

    def when_matched_update_all(self, condition: str | None = None) -> MergeInsertBuilder[Result]:
        """Update matched rows with the columns of the source; `condition` may name `source.x` and `target.x`.

        It may also name the row columns of the table but `_rowoffset`, such as `_rowid` and `target._fragid`.

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
        """Insert rows of the source that match no row of the table; columns that the source lacks have their defaults.

        If the key columns contain the table's primary key, the transaction carries the new keys: of two writers that insert one key at
        the same time, the second finds the row of the first.
        """
        return self._with(insert=True)

    def when_not_matched_by_source_delete(self, expr: str | None = None) -> MergeInsertBuilder[Result]:
        """Delete rows of the table that no row of the source matches, if they satisfy `expr`.

        `expr` may name row columns but `_rowoffset`, such as `_rowid` and `_fragid`.
        """
        return self._with(delete_by_source=expr or "")

    def target_bases(self, bases: Sequence[str]) -> MergeInsertBuilder[Result]:
        """Write the new data files to these base paths in turn, which are names or paths; see `Dataset.write`."""
        return replace(self, options=replace(self.options, target_bases=bases))

    def target_all_bases(self, include_primary: bool = True) -> MergeInsertBuilder[Result]:
        """Write the new data files to all base paths in turn, after the table's own folder if that is included."""
        return replace(self, options=replace(self.options, target_all_bases=include_primary))

    def execute(self, data: Data) -> Result:
        """Merge the rows, which are kept in memory.

        Raises AmbiguousMergeError if two of them change the same row of the table, and MatchedRowsError; see `when_matched_fail`.
        """
        return self.run(self.merge, read_all(data), self.options)

    def _with(self, **changes: Any) -> MergeInsertBuilder[Result]:
        return replace(self, merge=replace(self.merge, **changes))
