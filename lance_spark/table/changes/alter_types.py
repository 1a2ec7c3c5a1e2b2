"""Changes of types of columns and of fields in them: new fields with the rewritten values replace the old ones.

No other column is written, and of a column with fields only what changes; in storage version 2.0 the whole column.

Implements "Merge" of the transaction specification, with the casts that pylance permits: within integers, floats, decimals, text, bytes,
points in time, and lists of these. A value that does not fit is an error, and so is an index on the column, as in pylance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from lance_spark.arrow.types import is_binary, is_list, is_text
from lance_spark.errors import SchemaMismatchError
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.operations import Merge
from lance_spark.metadata.transaction import Transaction
from lance_spark.schema.schema import Field, Schema, from_arrow, quoted
from lance_spark.table.changes.column_files import ColumnFile, column_target
from lance_spark.table.changes.new_columns import add_columns_of, plan_columns
from lance_spark.table.changes.row_changes import RowChanges, Written
from lance_spark.table.commit.commit import commit
from lance_spark.table.commit.new_files import NewFiles
from lance_spark.table.scan.runner import Runner
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.conform import check_fits, conform
from lance_spark.table.write.nested_fields import Rebuilding, with_file
from lance_spark.table.write.target import WriteTarget


def retyped(snapshot: Snapshot, field: Field, t: pa.DataType, first_id: int) -> Field:
    """`field` as a new field of type `t`, with ids from `first_id`. Raises SchemaMismatchError if the values cannot be cast."""
    if field.is_blob or field.extension is not None or field.logical_type == "json" or not castable(field.type, t):
        raise SchemaMismatchError(
            f"{snapshot}: column {field.name!r} is {field.logical_type} and cannot become {t}; types change within integers, floats, "
            "decimals, text, bytes, points in time, and lists of these; for other types, use addColumns with a new name"
        )
    ids = {f.id for f in field.walk()}
    if indexes := sorted({i.name for i in snapshot.manifest.indexes if not ids.isdisjoint(i.fields)}):
        raise SchemaMismatchError(
            f"{snapshot}: column {field.name!r} has the index {', '.join(indexes)}; drop the index before changing the type"
        )
    (new,) = from_arrow(pa.schema([pa.field(field.name, t, field.nullable)]), first_id).fields
    return replace(new, metadata={**new.metadata, **field.metadata})


def castable(t: pa.DataType, target: pa.DataType) -> bool:
    """True if values of type `t` can be cast to `target`."""
    if pa.types.is_dictionary(t) or pa.types.is_dictionary(target):
        t, target = (x.value_type if pa.types.is_dictionary(x) else x for x in (t, target))
    if pa.types.is_fixed_size_list(t) and pa.types.is_fixed_size_list(target):
        return bool(t.list_size == target.list_size) and castable(t.value_type, target.value_type)
    if is_list(t) and is_list(target):
        return castable(t.value_type, target.value_type)
    if pa.types.is_timestamp(t) and pa.types.is_timestamp(target) and t.tz != target.tz:
        return {t.tz, target.tz} <= {None, "UTC", "+00:00", "Etc/UTC"}
    return any(a(t) and b(target) for a, b in _CASTS)


_CASTS = (
    (pa.types.is_integer, pa.types.is_integer),
    (pa.types.is_floating, pa.types.is_floating),
    (pa.types.is_decimal, pa.types.is_decimal),
    (is_text, is_text),
    (is_binary, is_binary),
    (pa.types.is_date, pa.types.is_date),
    (pa.types.is_date, pa.types.is_timestamp),
    (pa.types.is_timestamp, pa.types.is_date),
    (pa.types.is_timestamp, pa.types.is_time),
    (pa.types.is_timestamp, pa.types.is_timestamp),
    (pa.types.is_time, pa.types.is_time),
    (pa.types.is_duration, pa.types.is_duration),
)


@dataclass(frozen=True)
class Retyped:
    """A part of a column that is written anew, as it was and as it will be; `origins` are ids of replaced fields, by the new ids."""

    old: Field
    new: Field
    origins: Mapping[int, int]

    @property
    def columns(self) -> list[str]:
        """The columns to scan. Items of lists cannot be scanned in part."""
        return [quoted(names) for names in _paths(self.old, set(self.origins.values()))]


def _paths(old: Field, ids: Collection[int]) -> Iterator[list[str]]:
    if old.id in ids or not old.children or old.logical_type != "struct":
        yield [old.name]
        return
    for child in old.children:
        for path in _paths(child, ids):
            yield [old.name, *path]


@dataclass(frozen=True)
class Casts:
    """A picklable function that casts columns to new types."""

    columns: Sequence[Retyped]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns under their new names."""
        arrays = []
        for column in self.columns:
            rebuild = Rebuilding(origins=column.origins, cast=cast)
            arrays.append(rebuild(batch.column(column.old.name), column.old, column.new))
        return pa.RecordBatch.from_arrays(arrays, names=[c.new.name for c in self.columns])


def cast(column: pa.Array, field: Field) -> pa.Array:
    """The values in the type of `field`. Raises SchemaMismatchError for one that does not fit."""
    values = pa.record_batch([column], names=[field.name])
    try:
        check_fits(values.schema, Schema((replace(field, nullable=True),)))
    except SchemaMismatchError:
        try:
            return column.cast(field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as e:
            raise SchemaMismatchError(f"column {field.name!r}: a value does not fit {field.type}: {e}") from e
    return conform(values, Schema((field,))).column(0)


@dataclass(frozen=True)
class RetypePlan:
    """`columns` are what is written anew; `schema` is the table's new schema."""

    runner: Runner
    snapshot: Snapshot
    columns: Sequence[Retyped]
    schema: Schema
    preserves_nullability: bool | None

    def write(self, target: WriteTarget) -> Written:
        """Write the new files."""
        new = replace(target, schema=Schema(tuple(c.new for c in self.columns)))
        changed = {i for c in self.columns for i in c.origins.values()}
        ids = {leaf.id for f in self.snapshot.manifest.schema.walk() if f.id in changed for leaf in f.leaves()}
        # In a fragment without the field, it is null, so no file is needed.
        fragments = []
        for fragment in self.snapshot.manifest.fragments:
            if any(not ids.isdisjoint(file.fields) for file in fragment.files):
                fragments.append(fragment.id)
        columns = [path for c in self.columns for path in c.columns]
        origins = {i: old for c in self.columns for i, old in c.origins.items()}
        tasks = plan_columns(self.snapshot, replace(column_target(self.snapshot, new), origins=origins), columns, frozenset(fragments))
        done = self.runner.run(tasks, partial(add_columns_of, compute=Casts(self.columns)))
        return _Written(self, new, [file for files in done for file in files])


@dataclass(frozen=True)
class _Written:
    plan: RetypePlan
    target: WriteTarget
    files: Sequence[ColumnFile]

    @property
    def changes(self) -> RowChanges:
        size = sum(f.file.size or 0 for f in self.files)
        return RowChanges(self.plan.snapshot.version, num_files_added=len(self.files), num_bytes_added=size)

    def commit(self, noted: Mapping[str, str]) -> Snapshot:
        plan, snapshot = self.plan, self.plan.snapshot
        by_fragment, ids = {f.fragment_id: f for f in self.files}, {f.id for f in plan.schema.walk()}
        fragments = tuple(_with_file(fragment, by_fragment.get(fragment.id), ids) for fragment in snapshot.manifest.fragments)
        operation = Merge(fragments, plan.schema, plan.preserves_nullability)
        transaction = Transaction(snapshot.version, operation, properties=noted)
        return commit(snapshot.store, transaction, base=snapshot, files=NewFiles(since=self.target.since))


def _with_file(fragment: Fragment, new: ColumnFile | None, ids: set[int]) -> Fragment:
    """The fragment with the new file, and without files that have no remaining column of the table.

    There is no new file for a fragment whose rows are all deleted, or that has no file with the column.
    """
    if new is not None:
        return with_file(fragment, new.file, ids)
    return replace(fragment, files=tuple(file for file in fragment.files if not ids.isdisjoint(file.fields)) or fragment.files)
