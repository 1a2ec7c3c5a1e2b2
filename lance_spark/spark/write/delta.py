"""SQL's commands that change rows: Spark computes delta rows, executors write them.

RowLevelCommands.java passes the command as an option of the write. The transaction is based on the
version that the command has read, because row addresses refer to it. What delta rows are, and who
else writes them, is in `table.changes.delta`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from lance_spark.arrow.selection import keep_rows
from lance_spark.errors import CommitConflictError
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.inserted_keys import primary_key_in
from lance_spark.spark.columns.types import stored
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.spark.protocol import ROW_OPERATION, Command, Writer
from lance_spark.spark.workers.metrics import WriteClock
from lance_spark.spark.write.rows import Fragments
from lance_spark.spark.write.writer import Batches, Job, TaskMessage, Write
from lance_spark.storage.store import Store
from lance_spark.table.changes.delete import delete_all
from lance_spark.table.changes.delta import (
    INSERTED,
    OPERATION,
    ROW_ADDRESS,
    DeltaPart,
    DeltaTarget,
    Intent,
    united,
)
from lance_spark.table.changes.delta_writer import write_rows
from lance_spark.table.changes.row_changes import WrittenDelta, changes_by, noted
from lance_spark.table.commit.commit import with_own_ids
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.options import WriteOptions
from lance_spark.table.write.target import WriteTarget
from lance_spark.table.write.write import (
    begin_write,
    commit_write,
    rewrite_target,
    write_fragments,
)


@dataclass(frozen=True)
class Delta(Write[DeltaPart]):
    """The changes of a command; `properties` are for its transaction."""

    job: Job
    target: DeltaTarget
    command: Command
    properties: Mapping[str, str]

    @property
    def few(self) -> int:
        return Writer.CHANGES

    def write(self, rows: Batches, clock: WriteClock, task: int) -> TaskMessage[DeltaPart]:
        target = replace(self.target, write=self.target.write.from_folder(task))
        part = write_rows(target, map(with_operation, rows))
        counts = part.num_deleted, part.num_updated, part.num_inserted
        return TaskMessage(clock.report((*part.moved, *part.inserted), *counts), part)

    def commit(self, parts: Sequence[DeltaPart]) -> None:
        target, intent = self.target, Intent(self.command.condition)
        written = WrittenDelta(target.snapshot, target, intent, united(parts, target.repeats))
        with as_statement(self.command, target.version):
            written.commit({**self.properties, **noted(written.changes)})


def changes_of(snapshot: Snapshot, options: SparkWriteOptions, command: Command) -> Delta:
    """Prepare to write the changes of the rows of a version."""
    if with_own_ids(snapshot) is not snapshot:
        what = "fragments shared ids; a new version corrects that: run the statement again"
        raise CommitConflictError(f"{snapshot}: {what}", retryable=True)
    inserts = command.kind == "MERGE"
    key = primary_key_in(snapshot.manifest.schema, command.condition) if inserts else ()
    write = rewrite_target(snapshot, options.write, adds_rows=command.kind != "DELETE")
    target = DeltaTarget.of(snapshot, write, command.assigned, key, command.repeats)
    job = Job.of(target.write, command.statement)
    return Delta(job, target, command, {**options.write.noted, **command.properties})


@contextlib.contextmanager
def as_statement(command: Command, version: int) -> Iterator[None]:
    """Let a conflict say which command it refuses."""
    try:
        yield
    except CommitConflictError as e:
        what = f"{command.kind} based on version {version} was not committed"
        why = str(e).replace("run the operation again", "run the statement again")
        raise CommitConflictError(f"{what}: {why}", retryable=e.retryable) from e


def with_operation(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The delta rows of a batch, whose operation has a name of Spark's.

    Spark leaves out the operation if a MERGE only inserts rows.
    """
    names = batch.schema.names
    if ROW_OPERATION in names:
        own = [OPERATION if name == ROW_OPERATION else name for name in names]
        return batch.rename_columns(own)
    inserted = np.full(batch.num_rows, INSERTED, dtype=np.int32)
    return batch.append_column(OPERATION, pa.array(inserted))


@dataclass(frozen=True)
class FirstRows(Write[Fragments]):
    """The rows that a MERGE inserts into a table that a catalog has declared, without a version."""

    job: Job
    target: WriteTarget
    command: Command

    def write(self, rows: Batches, clock: WriteClock, task: int) -> TaskMessage[Fragments]:
        fragments = write_fragments(self.target.from_folder(task), map(_inserted, rows))
        return TaskMessage(clock.report(fragments, inserted=_count(fragments)), fragments)

    def commit(self, parts: Sequence[Fragments]) -> None:
        """Create the table. Without rows, nothing happens."""
        fragments = [fragment for part in parts for fragment in part]
        if not fragments:
            return
        figures = noted(changes_by(fragments, num_inserted_rows=_count(fragments)))
        commit_write(self.target.noting({**self.command.properties, **figures}), fragments)


def first_rows(store: Store, options: SparkWriteOptions, command: Command) -> FirstRows:
    """Prepare to write the rows that a MERGE inserts into a table that is only declared."""
    columns = stored(StructType.fromJson(json.loads(command.declared)), options.sizes)
    target = begin_write(store, columns, "create", options.write)
    return FirstRows(Job.of(target, command.statement), target, command)


def _count(fragments: Iterable[Fragment]) -> int:
    return sum(fragment.physical_rows for fragment in fragments)


def _inserted(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The inserted ones of the delta rows of a batch."""
    batch = with_operation(batch)
    rows = keep_rows(batch, pc.equal(batch.column(OPERATION), pa.scalar(INSERTED, pa.int32())))
    return rows.select([name for name in rows.schema.names if name not in (ROW_ADDRESS, OPERATION)])


@dataclass(frozen=True)
class Truncation(Write[None]):
    """The deletion of all rows. There are no tasks. `target` is None if there is no table yet."""

    job: Job
    target: DeltaTarget | None
    options: WriteOptions

    def write(self, rows: Batches, clock: WriteClock, task: int) -> TaskMessage[None]:
        raise AssertionError("TRUNCATE TABLE has no rows")

    def commit(self, parts: Sequence[None]) -> None:
        if self.target is not None:
            delete_all(self.target.snapshot, self.options)


def truncation(
    store: Store,
    snapshot: Snapshot | None,
    options: SparkWriteOptions,
    command: Command,
) -> Truncation:
    """Prepare to delete all rows."""
    target, version = None, 0
    if snapshot is not None:
        write = rewrite_target(snapshot, options.write, adds_rows=False)
        target, version = DeltaTarget.of(snapshot, write), snapshot.version
    job = Job(store, version, command.statement, no_files)
    return Truncation(job, target, replace(options.write, properties=command.properties))


def no_files() -> None:
    """Delete nothing."""
