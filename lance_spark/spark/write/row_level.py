"""SQL's row-level commands: Spark computes delta rows, executors write them, and the driver commits one transaction.

RowLevelCommands.java passes the command as an option of the write. The transaction is based on the version that the command has read,
because row addresses refer to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from lance_spark.arrow.selection import keep_rows
from lance_spark.errors import CommitConflictError, UnsupportedFeatureError, on_refusal
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.inserted_keys import primary_key_in
from lance_spark.metadata.transaction_ids import ids_of
from lance_spark.schema.schema import quoted
from lance_spark.spark.again import Job, JobWriter
from lance_spark.spark.columns.types import stored
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.spark.protocol import ROW_OPERATION, Command, FewRows, Writer
from lance_spark.spark.workers.import_cache import brief_errors, start_planning, start_task
from lance_spark.spark.workers.metrics import TaskMessage, WriteClock
from lance_spark.spark.write.writer import abort_job, no_message, partition_id
from lance_spark.storage.store import Store
from lance_spark.table.changes.column_files import ColumnFile, column_target, write_columns
from lance_spark.table.changes.columns_in_place import InPlace, columns_of, is_possible
from lance_spark.table.changes.delete import delete_all
from lance_spark.table.changes.delta import INSERTED, OPERATION, ROW_ADDRESS, DeltaPart, DeltaTarget, Intent
from lance_spark.table.changes.delta_writer import write_rows
from lance_spark.table.changes.new_columns import NewFields, commit_columns, new_fields
from lance_spark.table.changes.row_changes import DeltaPlan, RowChanges, noted
from lance_spark.table.changes.update import assigned_ids
from lance_spark.table.commit.commit import with_own_ids
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write import write
from lance_spark.table.write.new_schema import with_properties
from lance_spark.table.write.nullability import loosened
from lance_spark.table.write.write import discard_job, rewrite_target

_NOT_VALUES = ("_rowaddr", OPERATION)
ADD_COLUMNS, UPDATE_COLUMNS = "ADD COLUMNS", "UPDATE COLUMNS"
"""The kinds of commands that write columns of rows in place."""


@dataclass
class RowLevelMessage(TaskMessage):
    """The result of one task."""

    part: DeltaPart


class RowLevelWriter(JobWriter):
    """Writes the delta rows of a command. Created on the driver, and pickled for the tasks and for the process that commits."""

    few = Writer.CHANGES

    def __init__(self, snapshot: Snapshot, options: SparkWriteOptions, command: Command) -> None:
        if with_own_ids(snapshot) is not snapshot:
            raise CommitConflictError(
                f"{snapshot}: fragments shared ids; a new version corrects that: run the statement again", retryable=True
            )
        self._command = command
        self._noted = {**options.write.noted, **command.properties}
        schema = snapshot.manifest.schema
        key = primary_key_in(schema, command.condition) if command.kind == "MERGE" else ()
        target = rewrite_target(snapshot, options.write, adds_rows=command.kind != "DELETE")
        others, verify = snapshot.allow_other_stores, snapshot.verify_checksums
        self._target = DeltaTarget(target, tuple(command.assigned), others, verify, key, command.repeats)

    @property
    def job(self) -> Job:
        """What is written, for a commit that is asked again."""
        return Job(self._target.write.store, self._target.version, self._command.statement)

    @brief_errors()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowLevelMessage:
        """Write a task's rows to data files, which no version refers to yet. If this fails, they are deleted."""
        start_task()
        clock = WriteClock()
        target = replace(self._target, write=self._target.write.from_folder(partition_id()))
        return _message(clock, write_rows(target, map(with_operation, clock.rows(iterator))))

    @brief_errors()
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the changes of all tasks as one transaction. After an error their files are deleted, unless the version may exist."""
        start_planning()
        target = self._target
        try:
            with ids_of(self.job.request), on_refusal(partial(discard_job, target.write)):
                if (count := messages.count(None)) > 0:
                    raise no_message(count, len(messages))
                parts = [m.part for m in messages if isinstance(m, RowLevelMessage)]
                few = [pa.ipc.open_stream(m.rows) for m in messages if isinstance(m, FewRows) and m.rows]
                parts += [write_rows(target, map(with_operation, rows)) for rows in few]
                intent = Intent(self._command.condition, assigned_ids(target.write.schema, target.assigned))
                plan = DeltaPlan(target.snapshot, lambda _: parts, intent, target.assigned, target.key, target.repeats)
                written = plan.write(target.write)
                written.commit({**self._noted, **noted(written.changes)})
        except CommitConflictError as e:
            raise conflict(self._command, target.version, e) from e

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete the files of all tasks; see `abort_job`."""
        abort_job(self._target.write, messages)


class FirstRowsWriter(JobWriter):
    """Writes the inserted rows of a MERGE into a table that a catalog has declared, and that has no version yet."""

    def __init__(self, store: Store, options: SparkWriteOptions, command: Command) -> None:
        self._command = command
        self._schema = stored(StructType.fromJson(json.loads(command.declared)), options.sizes)
        self._target = write.begin_write(store, self._schema, "create", options.write)

    @property
    def job(self) -> Job:
        """What is written, for a commit that is asked again."""
        return Job(self._target.store, self._target.read_version, self._command.statement)

    @brief_errors()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> RowLevelMessage:
        """Write the inserted rows of a task to data files."""
        start_task()
        clock = WriteClock()
        target = self._target.from_folder(partition_id())
        fragments = write.write_fragments(target, (self._inserted(batch) for batch in clock.rows(iterator)))
        fragments = tuple(f for f in fragments if f.physical_rows)
        return _message(clock, DeltaPart({}, (), fragments, 0, 0, sum(f.physical_rows for f in fragments)))

    def _inserted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        batch = with_operation(batch)
        rows = keep_rows(batch, pc.equal(batch.column(OPERATION), pa.scalar(INSERTED, pa.int32())))
        return rows.select([name for name in rows.schema.names if name not in _NOT_VALUES])

    @brief_errors()
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Create the table with the rows of all tasks. Without rows, nothing happens."""
        start_planning()
        parts = [m.part for m in messages if isinstance(m, RowLevelMessage)]
        fragments: list[Fragment] = [fragment for part in parts for fragment in part.inserted]
        with ids_of(self.job.request), on_refusal(lambda: write.discard(self._target, fragments)):
            if len(parts) < len(messages):
                raise no_message(len(messages) - len(parts), len(messages))
            if fragments:
                files = [file for fragment in fragments for file in fragment.files]
                changes = RowChanges(0, 0, 0, sum(f.physical_rows for f in fragments), len(files), sum(file.size or 0 for file in files))
                properties = {**self._command.properties, **noted(changes)}
                write.commit_write(replace(self._target, options=replace(self._target.options, properties=properties)), fragments)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete the files of all tasks; see `abort_job`."""
        abort_job(self._target, messages)


@dataclass
class ColumnsMessage(TaskMessage):
    """The column files of one task."""

    files: list[ColumnFile]


class ColumnsWriter(JobWriter):
    """Writes values of columns by row address: new columns, or new values of existing ones. Rows stay in place.

    A task gets whole fragments, in the order of their rows.
    """

    def __init__(self, snapshot: Snapshot, options: SparkWriteOptions, command: Command, rows: StructType) -> None:
        self._command = command
        self._noted = {**options.write.noted, **command.properties}
        self._snapshot = snapshot
        values = stored(StructType([f for f in rows.fields if f.name != ROW_ADDRESS]), options.sizes)
        target = rewrite_target(snapshot, options.write)
        self._new: NewFields | None = None
        if command.kind == ADD_COLUMNS:
            self._new = new_fields(snapshot, with_properties(loosened(values), snapshot.manifest))
            write = replace(target, schema=self._new.written)
            self._target = replace(column_target(snapshot, write), names=self._new.names)
            self._names = {}
        else:
            self._names = {name: snapshot.manifest.schema.resolve_field(quoted([name]))[0].name for name in values.names}
            if not is_possible(snapshot, list(self._names.values())):
                raise UnsupportedFeatureError(
                    f"{snapshot}: these columns cannot be rewritten in place; write MERGE INTO, which moves the rows"
                )
            write = replace(target, schema=columns_of(snapshot, list(self._names.values())))
            self._target = column_target(snapshot, write, keeps_old=True)

    @property
    def job(self) -> Job:
        """What is written, for a commit that is asked again."""
        return Job(self._snapshot.store, self._snapshot.version, self._command.statement)

    @brief_errors()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> ColumnsMessage:
        """Write a task's values to data files, which no version refers to yet. If this fails, they are deleted."""
        start_task()
        clock = WriteClock()
        batches = (batch.rename_columns([self._names.get(name, name) for name in batch.schema.names]) for batch in clock.rows(iterator))
        files = write_columns(self._target, (batch for batch in batches if batch.num_rows))
        return ColumnsMessage(clock.report((), updated=sum(file.num_rows for file in files)), files)

    @brief_errors()
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the files of all tasks as one transaction. After an error they are deleted, unless the version may exist."""
        start_planning()
        files = [file for m in messages if isinstance(m, ColumnsMessage) for file in m.files]
        try:
            with ids_of(self.job.request), on_refusal(partial(discard_job, self._target.write)):
                if (count := sum(m is None for m in messages)) > 0:
                    raise no_message(count, len(messages))
                written = InPlace(self._snapshot, self._target.write, files)
                properties = {**self._noted, **noted(written.changes)}
                if self._new is None:
                    written.commit(properties)
                else:
                    by_fragment = {file.fragment_id: file for file in files}
                    commit_columns(self._snapshot, self._new, self._target.write.since, by_fragment, properties)
        except CommitConflictError as e:
            raise conflict(self._command, self._snapshot.version, e) from e

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete the files of all tasks; see `abort_job`."""
        abort_job(self._target.write, messages)


class TruncationWriter(JobWriter):
    """Deletes all rows in one transaction. There are no tasks."""

    def __init__(self, store: Store, snapshot: Snapshot | None, options: SparkWriteOptions, command: Command) -> None:
        """`snapshot` is None if there is no table yet."""
        self._store = store
        self._snapshot = snapshot
        self._command = command
        self._options = replace(options.write, properties=command.properties)

    @property
    def job(self) -> Job:
        """What is written, for a commit that is asked again."""
        return Job(self._store, 0 if self._snapshot is None else self._snapshot.version, self._command.statement)

    @brief_errors()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Raise UnsupportedFeatureError: Spark requires this method, but TRUNCATE has no tasks."""
        raise UnsupportedFeatureError("TRUNCATE TABLE only deletes rows; write rows with INSERT INTO")

    @brief_errors()
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit."""
        start_planning()
        if self._snapshot is not None:
            with ids_of(self.job.request):
                delete_all(self._snapshot, self._options)


def _message(clock: WriteClock, part: DeltaPart) -> RowLevelMessage:
    report = clock.report((*part.moved, *part.inserted), part.num_deleted, part.num_updated, part.num_inserted)
    return RowLevelMessage(report, part)


def with_operation(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The delta rows of a batch, whose operation has a name of Spark's. It leaves out the operation if a MERGE only inserts rows."""
    names = batch.schema.names
    if ROW_OPERATION in names:
        return batch.rename_columns([OPERATION if name == ROW_OPERATION else name for name in names])
    return batch.append_column(OPERATION, pa.array(np.full(batch.num_rows, INSERTED, dtype=np.int32)))


def row_level_writer(snapshot: Snapshot | None, store: Store, options: SparkWriteOptions, command: Command, rows: StructType) -> JobWriter:
    """The writer of a command that gets `rows`. `snapshot` is the version that it has read, None if there is no table yet."""
    if command.kind in (ADD_COLUMNS, UPDATE_COLUMNS):
        if snapshot is None:
            raise UnsupportedFeatureError(f"{store.uri} has no rows yet; write INSERT INTO first")
        return ColumnsWriter(snapshot, options, command, rows)
    if command.kind == "TRUNCATE":
        return TruncationWriter(store, snapshot, options, command)
    if snapshot is None or not command.version:
        return FirstRowsWriter(store, options, command)
    return RowLevelWriter(snapshot, options, command)


def conflict(command: Command, version: int, error: CommitConflictError) -> CommitConflictError:
    """The error for a command that another writer has overtaken."""
    text = str(error).replace("run the operation again", "run the statement again")
    return CommitConflictError(f"{command.kind} based on version {version} was not committed: {text}", retryable=error.retryable)
