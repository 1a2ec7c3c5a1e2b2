"""Writing rows to a partitioned namespace: executors divide them among partitions; the driver commits all tables at once, or none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.errors import InvalidOptionError
from lance_spark.namespace.manifest_table import ManifestTable
from lance_spark.namespace.partitioned.commit import commit_partitions
from lance_spark.namespace.partitioned.root import PartitionedVersion
from lance_spark.namespace.partitioned.write import PartitionedTarget, PartitionMode, WrittenPartition, begin, discard_job, write_partitions
from lance_spark.predicate import Predicate, parse
from lance_spark.schema.schema import from_arrow
from lance_spark.spark.again import Job
from lance_spark.spark.columns.types import stored
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.spark.workers.metrics import WriteClock
from lance_spark.spark.write.writer import TaskMessage, Write, of_session


@dataclass(frozen=True)
class Partitions(Write[list[WrittenPartition]]):
    """New rows of a namespace, as `target` says; `replaced` is the condition of its mode "replace"."""

    target: PartitionedTarget
    replaced: Predicate | None

    @property
    def job(self) -> Job:
        return Job(ManifestTable(self.target.root).store, self.target.version, self.target.job)

    def write(self, rows: Iterator[pa.RecordBatch], clock: WriteClock) -> TaskMessage[list[WrittenPartition]]:
        partitions = write_partitions(replace(self.target, rules=of_session(self.target.rules)), rows)
        report = clock.report(fragment for partition in partitions for fragment in partition.fragments)
        return TaskMessage(report, partitions)

    def commit(self, parts: Sequence[list[WrittenPartition]]) -> None:
        commit_partitions(self.target, [partition for part in parts for partition in part], self.replaced)

    def discard(self) -> None:
        discard_job(self.target)

    def discard_refused(self) -> None:
        """Do nothing: `commit_partitions` has deleted them, and knows which tables a part of the commit has made."""


def rows_to_partitions(
    version: PartitionedVersion,
    schema: StructType,
    overwrite: bool,
    options: SparkWriteOptions,
    replaced: Predicate | None = None,
) -> Partitions:
    """Prepare to write rows with `schema`. With `replaced`, or the option replaceWhere, the rows of this condition are replaced."""
    dynamic = options.partitionOverwriteMode == "dynamic"
    _check(version, overwrite, options, dynamic)
    within = None
    if options.replaceWhere is not None:
        replaced = within = parse(options.replaceWhere, from_arrow(version.schema), None)
    mode: PartitionMode = "append"
    if replaced is not None:
        mode = "replace"
    elif overwrite:
        mode = "dynamic" if dynamic else "overwrite"
    target = begin(version.root, stored(schema, options.sizes), mode, options.write, within=within)
    return Partitions(target, replaced)


def _check(version: PartitionedVersion, overwrite: bool, options: SparkWriteOptions, dynamic: bool) -> None:
    """Raise InvalidOptionError for options that do not apply, or do not go together."""
    if options.write_mode == "create":
        raise InvalidOptionError(f"{version.root.uri} is a partitioned namespace, which exists: write_mode=create does not apply")
    if "overwriteSchema" in options.given and options.write.overwrite_schema:
        raise InvalidOptionError("the option overwriteSchema does not apply to partitioned namespaces, whose columns stay")
    if not overwrite and (options.replaceWhere is not None or dynamic):
        raise InvalidOptionError("the options replaceWhere and partitionOverwriteMode=dynamic need Spark's mode overwrite")
    if options.replaceWhere is not None and dynamic:
        raise InvalidOptionError("give only one of the options replaceWhere and partitionOverwriteMode=dynamic")
