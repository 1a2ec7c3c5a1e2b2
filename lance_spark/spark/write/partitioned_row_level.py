"""SQL's row-level commands on a partitioned namespace: executors write delta rows, and the
driver commits one version over its tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from lance_spark.errors import CommitConflictError, UnsupportedFeatureError, on_refusal
from lance_spark.metadata.inserted_keys import primary_key_in
from lance_spark.metadata.transaction_ids import ids_of
from lance_spark.namespace.manifest_table import ManifestTable
from lance_spark.namespace.partitioned.changes import ChangePart, begin_changes, write_changes
from lance_spark.namespace.partitioned.commit import commit_changes, commit_partitions
from lance_spark.namespace.partitioned.root import PartitionedVersion
from lance_spark.namespace.partitioned.row_verbs import pinned
from lance_spark.namespace.partitioned.write import PartitionedTarget, begin, discard_job
from lance_spark.spark.again import Job, JobWriter
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.spark.protocol import Command, FewRows, Writer
from lance_spark.spark.workers.import_cache import brief_errors, start_planning, start_task
from lance_spark.spark.workers.metrics import TaskMessage, WriteClock
from lance_spark.spark.write.row_level import conflict, with_operation
from lance_spark.spark.write.writer import no_message


@dataclass
class PartitionedRowLevelMessage(TaskMessage):
    """The result of one task."""

    part: ChangePart


class PartitionedRowLevelWriter(JobWriter):
    """Writes the delta rows of a command.

    Created on the driver, and pickled for the tasks and for the process that commits.
    """

    few = Writer.CHANGES

    def __init__(self, version: PartitionedVersion, options: SparkWriteOptions, command: Command) -> None:
        if command.kind not in ("DELETE", "UPDATE", "MERGE"):
            raise UnsupportedFeatureError(f"{version.root.uri} is a partitioned namespace; {command.kind} applies to single tables")
        if pinned(version) is not version:
            what = "the namespace named no versions of some tables; a new version of it does: run the statement again"
            raise CommitConflictError(f"{version}: {what}", retryable=True)
        self._command = command
        self._noted = {**options.write.noted, **command.properties}
        schema = version.shape.manifest.schema
        inserts = command.kind == "MERGE"
        self._has_keys = inserts and bool(primary_key_in(schema, command.condition))
        self._target = begin_changes(version, command.assigned, options.write, inserts=inserts, repeats=command.repeats)

    @property
    def job(self) -> Job:
        """What is written, for a commit that is asked again."""
        return _job(self._target.write, self._command)

    @brief_errors()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartitionedRowLevelMessage:
        """Write a task's rows to data files, which no version refers to yet.

        If this fails, they are deleted.
        """
        start_task()
        clock = WriteClock()
        part = write_changes(self._target, map(with_operation, clock.rows(iterator)))
        return PartitionedRowLevelMessage(
            clock.report(part.fragments, part.num_deleted, part.num_updated, part.num_inserted),
            part,
        )

    @brief_errors()
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the changes of all tasks as one version.

        After an error their files are deleted, unless the version may exist.
        """
        start_planning()
        target = self._target
        try:
            with ids_of(self.job.request):
                with on_refusal(lambda: discard_job(target.write)):
                    if (count := messages.count(None)) > 0:
                        raise no_message(count, len(messages))
                    parts = [m.part for m in messages if isinstance(m, PartitionedRowLevelMessage)]
                    few = [pa.ipc.open_stream(m.rows) for m in messages if isinstance(m, FewRows) and m.rows]
                    parts += [write_changes(target, map(with_operation, rows)) for rows in few]
                commit_changes(target, parts, self._noted, has_keys=self._has_keys)
        except CommitConflictError as e:
            raise conflict(self._command, target.write.version, e) from e

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete the files of all tasks; after a failed commit, that has handled them."""
        if None in messages:
            discard_job(self._target.write)


class PartitionedTruncationWriter(JobWriter):
    """TRUNCATE, and DELETE of all rows: the new version names no tables.

    Older versions keep theirs.
    """

    def __init__(self, version: PartitionedVersion, options: SparkWriteOptions, command: Command) -> None:
        self._command = command
        self._noted = {**options.write.noted, **command.properties}
        self._target = begin(version.root, version.schema, "overwrite", options.write, version)

    @property
    def job(self) -> Job:
        """What is written, for a commit that is asked again."""
        return _job(self._target, self._command)

    @brief_errors()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Raise UnsupportedFeatureError: Spark requires this method, but TRUNCATE has no tasks."""
        raise UnsupportedFeatureError("TRUNCATE TABLE only deletes rows; write rows with INSERT INTO")

    @brief_errors()
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit."""
        start_planning()
        with ids_of(self.job.request):
            commit_partitions(self._target, [], properties=self._noted)


def _job(target: PartitionedTarget, command: Command) -> Job:
    return Job(ManifestTable(target.root).store, target.version, command.statement)


def partitioned_row_level_writer(version: PartitionedVersion, options: SparkWriteOptions, command: Command) -> JobWriter:
    """The writer of a command. `version` is the one that it has read."""
    if command.kind == "TRUNCATE":
        return PartitionedTruncationWriter(version, options, command)
    return PartitionedRowLevelWriter(version, options, command)
