"""New columns with values: their fields, the tasks that compute them, and the commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.errors import SchemaMismatchError, UnsupportedFeatureError
from lance_spark.metadata.operations import Merge
from lance_spark.metadata.row_columns import check_names, check_new_names, check_not_reserved
from lance_spark.metadata.transaction import Transaction
from lance_spark.predicate import Formula, Predicate, calculate
from lance_spark.schema.schema import Field, Schema, quoted
from lance_spark.table.changes.checkpoint import Checkpoint
from lance_spark.table.changes.column_files import ColumnFile, ColumnTarget, write_columns
from lance_spark.table.changes.delta import ADDRESS_PATHS, ROW_ADDRESS
from lance_spark.table.commit.commit import commit
from lance_spark.table.commit.new_files import NewFiles
from lance_spark.table.scan.plan import ScanPlan, plan_fragments, row_bytes
from lance_spark.table.scan.task import ScanTask
from lance_spark.table.versions.field_ids import next_field_id
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.conform import check_fits
from lance_spark.table.write.nested_fields import New, extended, named, with_file, written_part

Compute = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Compute the new columns of a batch, with the same rows in the same order."""


def check_new(new: Sequence[New], made: Sequence[Field]) -> None:
    """Raise SchemaMismatchError if a new column, whose field is in `made`, has a type or a name that is not permitted."""
    fields = Schema(tuple(made))
    for (_, column), field in zip(new, made):
        check_fits(pa.schema([column]), Schema((field,)))
    check_not_reserved(fields)


@dataclass(frozen=True)
class NewFields:
    """New columns: `schema` is the table's with them, `written` what their files have, and `names` the name of each, by field id."""

    schema: Schema
    written: Schema
    names: Mapping[int, str]


def new_fields(snapshot: Snapshot, columns: pa.Schema, without_values: Container[str] = ()) -> NewFields:
    """The fields of new columns, whose names may be paths. They are nullable, because deleted rows have no value.

    Those with the names `without_values` are null in all rows, and no file has them. Raises SchemaMismatchError for an existing or reserved
    name, and UnsupportedFeatureError for fields that cannot get values.
    """
    manifest = snapshot.manifest
    new = named(manifest.schema, pa.schema([f.with_nullable(True) for f in columns]))
    schema, made = extended(manifest, new, next_field_id(snapshot))
    check_new(new, made)
    check_names(schema.fields)
    check_new_names(schema.fields, manifest.schema.fields)
    names = {field.id: column.name for field, column in zip(made, columns) if column.name not in without_values}
    if manifest.data_format == "0.1" and len(names) < len(made):
        raise UnsupportedFeatureError(f"{snapshot}: tables of storage version 0.1 cannot have columns without values")
    ids = set(names)
    parts = tuple(part for f in schema.fields if (part := written_part(f, ids, manifest.data_format)) is not None)
    around = [f for f in Schema(parts).walk() if f.id not in ids and f.children]
    if lists := [f.name for f in around if f.logical_type != "struct" and _has(f, ids)]:
        raise UnsupportedFeatureError(f"new fields in the list {lists[0]!r} cannot get values; add them without values")
    return NewFields(schema, Schema(parts), names)


def _has(field: Field, ids: Container[int]) -> bool:
    return any(below.id in ids for below in field.walk())


@dataclass(frozen=True)
class ColumnTask:
    """A task that computes new columns of whole fragments from the columns that `scan` reads (including `ROW_ADDRESS`).

    `reads_address`: the new columns are computed from `ROW_ADDRESS`, too.
    """

    scan: ScanTask
    target: ColumnTarget
    reads_address: bool = False

    @property
    def work(self) -> int:
        """About how many bytes it reads and writes, if the columns replace others."""
        parts = self.scan.parts
        written = parts.fragments.counts[:, 1] * row_bytes(parts, self.target.write.schema)
        return self.scan.work + int(written.sum())


def plan_columns(
    snapshot: Snapshot, target: ColumnTarget, columns: Sequence[str] | None, fragments: Collection[int], predicate: Predicate | None = None
) -> list[ColumnTask]:
    """One task for each of these fragments with rows, for the rows that satisfy `predicate`.

    `columns` are the columns that the new ones are computed from (None: all).
    """
    names = columns if columns is not None else [quoted([f.name]) for f in snapshot.manifest.schema.fields]
    others = [name for name in names if name not in ADDRESS_PATHS]
    plan = ScanPlan(columns=(*others, ROW_ADDRESS), predicate=predicate)
    return [ColumnTask(scan, target, len(others) < len(names)) for scan in plan_fragments(snapshot, plan, fragments)]


def add_columns_of(task: ColumnTask, compute: Compute, checkpoint: Checkpoint | None = None) -> list[ColumnFile]:
    """Run one task, and note in `checkpoint` that it is finished."""
    files = write_columns(task.target, _computed(task.scan.read(), compute, task.target.columns, task.reads_address))
    if checkpoint is not None:
        fragments = {part.fragment.id: part.fragment for part in task.scan.parts}
        for file in files:
            checkpoint.note(fragments[file.fragment_id], file, task.target.write.since)
    return files


def _computed(batches: Iterable[pa.RecordBatch], compute: Compute, columns: Iterable[str], reads_address: bool) -> Iterator[pa.RecordBatch]:
    names = sorted(columns)
    for batch in batches:
        new = compute(batch if reads_address else batch.drop_columns([ROW_ADDRESS]))
        if not isinstance(new, pa.RecordBatch) or new.num_rows != batch.num_rows:
            found = f"{new.num_rows} rows" if isinstance(new, pa.RecordBatch) else type(new).__name__
            raise SchemaMismatchError(f"the function must return a record batch of {batch.num_rows} rows, not {found}")
        if sorted(new.schema.names) != names:
            found, expected = (", ".join(map(repr, given)) or "none" for given in (new.schema.names, names))
            raise SchemaMismatchError(f"the function returned the columns {found}; expected those of its schema: {expected}")
        yield new.append_column(ROW_ADDRESS, batch.column(ROW_ADDRESS))


@dataclass(frozen=True)
class Formulas:
    """A picklable function that computes columns from formulas."""

    formulas: Mapping[str, Formula]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Evaluate each formula."""
        return pa.RecordBatch.from_arrays([calculate(f, batch) for f in self.formulas.values()], names=list(self.formulas))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the formulas read."""
        return tuple(dict.fromkeys(column for f in self.formulas.values() for column in f.columns))


def commit_columns(
    snapshot: Snapshot, new: NewFields, since: float, files: Mapping[int, ColumnFile], properties: Mapping[str, str]
) -> Snapshot:
    """Commit new columns of `snapshot`. `files` are the new files by fragment id; in other fragments, the columns are null.

    Raises the errors of `table.commit.commit.commit`. Then the files stay, since they can be committed to a later version.
    """
    ids = {f.id for f in new.schema.walk()}
    fragments = []
    for fragment in snapshot.manifest.fragments:
        file = files.get(fragment.id)
        fragments.append(fragment if file is None else with_file(fragment, file.file, ids))
    operation = Merge(tuple(fragments), new.schema, preserves_nullability=True)
    return commit(
        snapshot.store, Transaction(snapshot.version, operation, properties=properties), base=snapshot, files=NewFiles(since=since)
    )
