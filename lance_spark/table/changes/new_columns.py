"""New columns with values: their fields, the tasks that compute them, and the commit."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_spark.errors import SchemaMismatchError
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.operations import Merge
from lance_spark.metadata.row_columns import check_names, check_no_dots, check_not_reserved
from lance_spark.metadata.transaction import Transaction
from lance_spark.predicate import Formula, Predicate, calculate
from lance_spark.schema.schema import Schema, from_arrow, quoted
from lance_spark.table.changes.checkpoint import Checkpoint
from lance_spark.table.changes.column_files import ColumnFile, ColumnTarget, write_columns
from lance_spark.table.changes.delta import ADDRESS_PATHS, ROW_ADDRESS
from lance_spark.table.commit.commit import commit
from lance_spark.table.commit.new_files import NewFiles
from lance_spark.table.scan.plan import ScanPlan, ScanTask, plan_fragments
from lance_spark.table.versions.field_ids import next_field_id
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.conform import check_fits
from lance_spark.table.write.write import WriteTarget

Compute = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Compute the new columns of a batch, with the same rows in the same order."""


def new_fields(snapshot: Snapshot, columns: pa.Schema) -> Schema:
    """The fields of new columns. They are nullable, because deleted rows have no value.

    Raises SchemaMismatchError for an existing or reserved name.
    """
    manifest = snapshot.manifest
    fields = from_arrow(pa.schema([f.with_nullable(True) for f in columns]), next_field_id(snapshot))
    check_fits(pa.schema([f.with_nullable(True) for f in columns]), fields)
    check_not_reserved(fields)
    check_no_dots(fields.names)
    names = {f.name.lower() for f in manifest.schema.fields}
    if known := [f.name for f in fields.fields if f.name.lower() in names]:
        raise SchemaMismatchError(f"the table already has the columns {', '.join(map(repr, known))}")
    check_names((*manifest.schema.fields, *fields.fields))
    return fields


@dataclass(frozen=True)
class ColumnTask:
    """A task that computes new columns of whole fragments from the columns that `scan` reads (including `ROW_ADDRESS`).

    `reads_address`: the new columns are computed from `ROW_ADDRESS`, too.
    """

    scan: ScanTask
    target: ColumnTarget
    reads_address: bool = False


def plan_columns(
    snapshot: Snapshot, target: ColumnTarget, columns: Sequence[str] | None, fragments: Container[int], predicate: Predicate | None = None
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
    from lance_spark.table.scan.task import read_task  # loads the decoders, which the driver does not need

    files = write_columns(task.target, _computed(read_task(task.scan), compute, task.target.write.schema.names, task.reads_address))
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


def commit_columns(snapshot: Snapshot, target: WriteTarget, files: Mapping[int, ColumnFile], properties: Mapping[str, str]) -> Snapshot:
    """Commit new columns of `snapshot`. `files` are the new files by fragment id; in other fragments, the columns are null.

    Raises the errors of `table.commit.commit.commit`. Then the files stay, since they can be committed to a later version.
    """
    schema = replace(snapshot.manifest.schema, fields=(*snapshot.manifest.schema.fields, *target.schema.fields))
    fragments = tuple(_with_file(fragment, files.get(fragment.id)) for fragment in snapshot.manifest.fragments)
    operation = Merge(fragments, schema, preserves_nullability=True)
    return commit(
        snapshot.store, Transaction(snapshot.version, operation, properties=properties), base=snapshot, files=NewFiles(since=target.since)
    )


def _with_file(fragment: Fragment, new: ColumnFile | None) -> Fragment:
    return fragment if new is None else replace(fragment, files=(*fragment.files, new.file))
