"""SQL's commands that change rows of a partitioned namespace.

Executors write delta rows, and the driver commits one version over all tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lance_spark.errors import CommitConflictError, UnsupportedFeatureError
from lance_spark.metadata.inserted_keys import primary_key_in
from lance_spark.namespace.manifest_table import ManifestTable
from lance_spark.namespace.partitioned.changes import (
    ChangePart,
    ChangeTarget,
    begin_changes,
    write_changes,
)
from lance_spark.namespace.partitioned.commit import commit_changes, commit_partitions
from lance_spark.namespace.partitioned.root import PartitionedVersion
from lance_spark.namespace.partitioned.row_verbs import pinned
from lance_spark.namespace.partitioned.write import PartitionedTarget, begin, discard_job
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.spark.protocol import Command, Writer
from lance_spark.spark.workers.metrics import WriteClock
from lance_spark.spark.write.delta import as_statement, no_files, with_operation
from lance_spark.spark.write.writer import Batches, Job, TaskMessage, Write


@dataclass(frozen=True)
class PartitionedDelta(Write[ChangePart]):
    """The changes of a command; `properties` are for its transaction.

    With `has_keys`, new rows have keys that no other row may have.
    """

    job: Job
    target: ChangeTarget
    command: Command
    properties: Mapping[str, str]
    has_keys: bool

    @property
    def few(self) -> int:
        return Writer.CHANGES

    def write(self, rows: Batches, clock: WriteClock, task: int) -> TaskMessage[ChangePart]:
        part = write_changes(self.target, map(with_operation, rows))
        counts = part.num_deleted, part.num_updated, part.num_inserted
        return TaskMessage(clock.report(part.fragments, *counts), part)

    def commit(self, parts: Sequence[ChangePart]) -> None:
        with as_statement(self.command, self.target.write.version):
            commit_changes(self.target, parts, self.properties, has_keys=self.has_keys)

    def discard_refused(self) -> None:
        """Do nothing: `commit_changes` has deleted them, but those of tables that it has made."""


@dataclass(frozen=True)
class PartitionedTruncation(Write[None]):
    """The deletion of all rows: the new version names no tables. Older versions keep theirs."""

    job: Job
    target: PartitionedTarget
    properties: Mapping[str, str]

    def write(self, rows: Batches, clock: WriteClock, task: int) -> TaskMessage[None]:
        raise AssertionError("TRUNCATE TABLE has no rows")

    def commit(self, parts: Sequence[None]) -> None:
        commit_partitions(self.target, [], properties=self.properties)


def write_of(version: PartitionedVersion, options: SparkWriteOptions, command: Command) -> Write[Any]:
    """The write of a command. `version` is the one that it has read."""
    noted = {**options.write.noted, **command.properties}
    if command.kind == "TRUNCATE":
        whole = begin(version.root, version.schema, "overwrite", options.write, version)
        return PartitionedTruncation(_job(whole, command, no_files), whole, noted)
    if command.kind not in ("DELETE", "UPDATE", "MERGE"):
        what = f"{command.kind} applies to single tables"
        raise UnsupportedFeatureError(f"{version.root.uri} is a partitioned namespace; {what}")
    if pinned(version) is not version:
        what = "the namespace named no versions of some tables; a new version of it does"
        raise CommitConflictError(f"{version}: {what}: run the statement again", retryable=True)
    inserts = command.kind == "MERGE"
    schema = version.shape.manifest.schema
    has_keys = inserts and bool(primary_key_in(schema, command.condition))
    target = begin_changes(
        version,
        command.assigned,
        options.write,
        inserts=inserts,
        repeats=command.repeats,
    )
    job = _job(target.write, command, partial(discard_job, target.write))
    return PartitionedDelta(job, target, command, noted, has_keys)


def _job(target: PartitionedTarget, command: Command, discard: Callable[[], object]) -> Job:
    return Job(ManifestTable(target.root).store, target.version, command.statement, discard)
