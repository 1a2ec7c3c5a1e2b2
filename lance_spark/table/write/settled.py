"""The columns of a write: those that its rows give to the table, and those that its files have.

What append, mergeSchema, overwriteSchema and a new table do to columns is decided here, once for
all that write rows; also what becomes of columns of a DataFrame, of which Spark does not know all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa

from lance_spark.errors import SchemaMismatchError
from lance_spark.metadata.row_columns import check_new_names
from lance_spark.schema import primary_key
from lance_spark.schema.declared_types import DECLARED, is_generated
from lance_spark.schema.schema import Schema
from lance_spark.schema.storage_version import StorageVersion
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.conform import check_fits, matched
from lance_spark.table.write.defaults import default_of
from lance_spark.table.write.merge_schema import widened
from lance_spark.table.write.new_schema import new_schema
from lance_spark.table.write.nullability import loosened, with_key
from lance_spark.table.write.options import WriteOptions
from lance_spark.table.write.target import Mode

Change = Literal["kept", "added", "new"]


@dataclass(frozen=True)
class Columns:
    """The columns of the table after a write, and those of its files.

    The table's are those that it had (`kept`), these and others (`added`), or those of the data
    (`new`).
    """

    table: Schema
    files: Schema
    change: Change


@dataclass(frozen=True)
class Frame:
    """What a DataFrame says of its columns.

    Spark infers from the rows which of them may be null, but for those that a statement has
    `declared`. It does not say the length of a CHAR column: with `keeps_lengths`, a column that
    replaces one of the same name has that one's.
    """

    declared: frozenset[str] = frozenset()
    keeps_lengths: bool = True

    def columns(self, given: pa.Schema, old: pa.Schema | None, mode: Mode) -> pa.Schema:
        """The columns `given` as those of a table, which has the columns `old` (None: no table)."""
        are_replaced = mode == "overwrite"
        if are_replaced and self.declared:
            # A statement that replaces a table has declared all columns anew.
            columns = loosened(given, None, self.declared)
            return columns if old is None else with_key(columns, old)
        columns = loosened(given, old, self.declared)
        if old is None or not are_replaced or not self.keeps_lengths:
            return columns
        return _with_lengths(columns, old)


def _with_lengths(new: pa.Schema, old: pa.Schema) -> pa.Schema:
    """Columns of strings, with the declared types of old columns of the same name."""
    declared = {}
    for f in old:
        if pa.types.is_string(f.type) and DECLARED in (f.metadata or {}):
            declared[f.name.lower()] = f.metadata[DECLARED]
    fields = []
    for f in new:
        if pa.types.is_string(f.type) and f.name.lower() in declared:
            f = f.with_metadata({DECLARED: declared[f.name.lower()], **(f.metadata or {})})
        fields.append(f)
    return pa.schema(fields)


def settled(
    base: Snapshot | None,
    data: pa.Schema,
    mode: Mode,
    options: WriteOptions,
    version: StorageVersion,
    frame: Frame | None,
) -> Columns:
    """The columns of a write of `data` to the latest version `base` (None: there is no table).

    Data of a `frame` are of Spark; others say all of their columns. `version` is that of the files.
    Raises SchemaMismatchError with all differences if the data does not fit the table.
    """
    current = None if base is None else base.manifest.schema
    if frame is not None:
        data = frame.columns(data, None if current is None else current.to_arrow(), mode)
    if base is not None and mode == "append":
        return _of_append(base, data, options)
    if base is not None and options.keeps_columns:
        table = _with_added(base, data, options)
        return Columns(table, table, _change(base, table))
    table = new_schema(data, version, options.column_options)
    check_new_names(table.fields, () if current is None else current.fields)
    if current is not None:
        primary_key.check_kept(current, table, overwritten=True)
    check_fits(data, table)
    return Columns(table, table, "new")


def _of_append(base: Snapshot, data: pa.Schema, options: WriteOptions) -> Columns:
    """The files have the columns of the data, and those that have a default.

    Any other column needs no place in the new files: it is read as null.
    """
    table = _with_added(base, data, options)
    places = matched(data.names, table.fields)
    if all(at is None for at in places):
        raise SchemaMismatchError("the data has none of the table's columns")
    fields = []
    for field, at in zip(table.fields, places, strict=True):
        if at is not None or default_of(field) is not None or is_generated(field):
            fields.append(field)
    files = replace(table, fields=tuple(fields))
    return Columns(table, files, _change(base, table))


def _with_added(base: Snapshot, data: pa.Schema, options: WriteOptions) -> Schema:
    """The columns of the table, and with mergeSchema those of the data that it lacks."""
    table = widened(base, data) if options.merge_schema else base.manifest.schema
    check_fits(data, table)
    return table


def _change(base: Snapshot, table: Schema) -> Change:
    is_wider = len(table.fields) > len(base.manifest.schema.fields)
    return "added" if is_wider else "kept"
