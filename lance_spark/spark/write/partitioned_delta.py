"""SQL commands that change rows of a partitioned namespace: executors write delta rows, the driver commits one version of all tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.errors import CommitConflictError, UnsupportedFeatureError
from lance_spark.metadata.inserted_keys import primary_key_in
from lance_spark.namespace.manifest_table import ManifestTable
from lance_spark.namespace.partitioned.changes import ChangePart, ChangeTarget, begin_changes, write_changes
from lance_spark.namespace.partitioned.commit import commit_changes, commit_partitions
from lance_spark.namespace.partitioned.root import PartitionedVersion
from lance_spark.namespace.partitioned.row_verbs import pinned
from lance_spark.namespace.partitioned.write import PartitionedTarget, begin, discard_job
from lance_spark.spark.again import Job
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.spark.protocol import Command, Writer
from lance_spark.spark.workers.metrics import WriteClock
from lance_spark.spark.write.delta import as_statement, with_operation
from lance_spark.spark.write.writer import TaskMessage, Write


@dataclass(frozen=True)
class PartitionedDelta(Write[ChangePart]):
    """The changes of a command; `properties` are for its transaction. With `has_keys`, new rows have keys that no other row may have."""

    target: ChangeTarget
    command: Command
    properties: Mapping[str, str]
    has_keys: bool

    @property
    def few(self) -> int:
        return Writer.CHANGES

    @property
    def job(self) -> Job:
        return _job(self.target.write, self.command)

    def write(self, rows: Iterator[pa.RecordBatch], clock: WriteClock) -> TaskMessage[ChangePart]:
        part = write_changes(self.target, map(with_operation, rows))
        return TaskMessage(clock.report(part.fragments, part.num_deleted, part.num_updated, part.num_inserted), part)

    def commit(self, parts: Sequence[ChangePart]) -> None:
        with as_statement(self.command, self.target.write.version):
            commit_changes(self.target, parts, self.properties, has_keys=self.has_keys)

    def discard(self) -> None:
        discard_job(self.target.write)

    def discard_refused(self) -> None:
        """Do nothing: `commit_changes` has deleted them, and knows which tables a part of the commit has made."""


def changes_of(version: PartitionedVersion, options: SparkWriteOptions, command: Command) -> PartitionedDelta:
    """Prepare to write the changes of the rows of a version."""
    if command.kind not in ("DELETE", "UPDATE", "MERGE"):
        raise UnsupportedFeatureError(f"{version.root.uri} is a partitioned namespace; {command.kind} applies to single tables")
    if pinned(version) is not version:
        what = "the namespace named no versions of some tables; a new version of it does: run the statement again"
        raise CommitConflictError(f"{version}: {what}", retryable=True)
    inserts = command.kind == "MERGE"
    has_keys = inserts and bool(primary_key_in(version.shape.manifest.schema, command.condition))
    target = begin_changes(version, command.assigned, options.write, inserts=inserts, repeats=command.repeats)
    return PartitionedDelta(target, command, {**options.write.noted, **command.properties}, has_keys)


@dataclass(frozen=True)
class PartitionedTruncation(Write[None]):
    """The deletion of all rows: the new version names no tables. There are no tasks. Older versions keep theirs."""

    target: PartitionedTarget
    command: Command
    properties: Mapping[str, str]

    @property
    def job(self) -> Job:
        return _job(self.target, self.command)

    def write(self, rows: Iterator[pa.RecordBatch], clock: WriteClock) -> TaskMessage[None]:
        raise AssertionError("TRUNCATE TABLE has no rows")

    def commit(self, parts: Sequence[None]) -> None:
        commit_partitions(self.target, [], properties=self.properties)

    def discard(self) -> None:
        """Do nothing: no files are written."""


def truncation_of(version: PartitionedVersion, options: SparkWriteOptions, command: Command) -> PartitionedTruncation:
    """Prepare to delete all rows."""
    target = begin(version.root, version.schema, "overwrite", options.write, version)
    return PartitionedTruncation(target, command, {**options.write.noted, **command.properties})


def _job(target: PartitionedTarget, command: Command) -> Job:
    return Job(ManifestTable(target.root).store, target.version, command.statement)
