"""Writing a partitioned namespace from Spark: executors divide rows among partitions; the driver commits all tables at once, or none."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from lance_spark.errors import InvalidOptionError, LanceError
from lance_spark.metadata.transaction_ids import ids_of
from lance_spark.namespace.manifest_table import ManifestTable
from lance_spark.namespace.partitioned.commit import commit_partitions
from lance_spark.namespace.partitioned.root import PartitionedVersion
from lance_spark.namespace.partitioned.write import PartitionMode, WrittenPartition, begin, discard_job, write_partitions
from lance_spark.predicate import Predicate, parse
from lance_spark.schema.schema import from_arrow
from lance_spark.spark.again import Job, JobWriter
from lance_spark.spark.columns.types import stored
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.spark.workers.import_cache import brief_errors, start_planning, start_task
from lance_spark.spark.workers.metrics import TaskMessage, WriteClock
from lance_spark.spark.write.writer import STOPPED_AFTER_S, of_session


@dataclass
class PartitionedCommitMessage(TaskMessage):
    """The partitions that one task has written."""

    partitions: tuple[WrittenPartition, ...]


class PartitionedWriter(JobWriter):
    """Writes the rows of one DataFrame to one namespace; created on the driver, pickled for the tasks and for the process that commits."""

    def __init__(self, version: PartitionedVersion, schema: StructType, overwrite: bool, options: SparkWriteOptions) -> None:
        if options.write_mode == "create":
            raise InvalidOptionError(f"{version.root.uri} is a partitioned namespace, which exists: write_mode=create does not apply")
        if "overwriteSchema" in options.given and options.write.overwrite_schema:
            raise InvalidOptionError("the option overwriteSchema does not apply to partitioned namespaces, whose columns stay")
        dynamic = options.partitionOverwriteMode == "dynamic"
        if not overwrite and (options.replaceWhere is not None or dynamic):
            raise InvalidOptionError("the options replaceWhere and partitionOverwriteMode=dynamic need Spark's mode overwrite")
        if options.replaceWhere is not None and dynamic:
            raise InvalidOptionError("give only one of the options replaceWhere and partitionOverwriteMode=dynamic")
        self._replaced: Predicate | None = None
        mode: PartitionMode = "append" if not overwrite else "dynamic" if dynamic else "overwrite"
        if options.replaceWhere is not None:
            self._replaced, mode = parse(options.replaceWhere, from_arrow(version.schema), None), "replace"
        self._target = begin(version.root, stored(schema, options.sizes), mode, options.write, within=self._replaced)

    @property
    def job(self) -> Job:
        """What is written, for a commit that is asked again."""
        return Job(ManifestTable(self._target.root).store, self._target.version, self._target.job)

    @brief_errors()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartitionedCommitMessage:
        """Write one task's rows to data files that no version refers to yet; they are deleted if this fails."""
        start_task()
        clock = WriteClock()
        partitions = tuple(write_partitions(replace(self._target, rules=of_session(self._target.rules)), clock.rows(iterator)))
        return PartitionedCommitMessage(clock.report(f for p in partitions for f in p.fragments), partitions)

    @brief_errors()
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit everything that the tasks have written. After an error the files are deleted, unless the version may exist."""
        start_planning()
        if None in messages:
            raise LanceError(
                f"{messages.count(None)} of {len(messages)} tasks returned no commit message; nothing is committed: run the write again"
            )
        with ids_of(self.job.request):
            commit_partitions(self._target, _partitions(messages), self._replaced)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete the files of all tasks, including those that still run after another one has failed.

        Spark also aborts after a failed commit. Then every task has a message, and `commit` has already handled the files.
        """
        if None in messages:
            discard_job(self._target)
        if messages.count(None) > 1:
            time.sleep(STOPPED_AFTER_S)
            discard_job(self._target)


def _partitions(messages: Sequence[WriterCommitMessage | None]) -> list[WrittenPartition]:
    return [partition for m in messages if isinstance(m, PartitionedCommitMessage) for partition in m.partitions]
