"""Writing rows to a partitioned namespace.

Executors divide them among partitions, and the driver commits all tables at once, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql.types import StructType

from lance_spark.errors import InvalidOptionError
from lance_spark.namespace.manifest_table import ManifestTable
from lance_spark.namespace.partitioned.commit import commit_partitions
from lance_spark.namespace.partitioned.root import PartitionedVersion
from lance_spark.namespace.partitioned.write import (
    PartitionedTarget,
    PartitionMode,
    WrittenPartition,
    begin,
    discard_job,
    write_partitions,
)
from lance_spark.predicate import Predicate, parse
from lance_spark.schema.schema import from_arrow
from lance_spark.spark.columns.types import stored
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.spark.workers.metrics import WriteClock
from lance_spark.spark.write.writer import Batches, Job, TaskMessage, Write, of_session

Written = list[WrittenPartition]


@dataclass(frozen=True)
class Partitions(Write[Written]):
    """New rows of a namespace, as `target` says.

    `replaced` is the condition of its mode "replace".
    """

    job: Job
    target: PartitionedTarget
    replaced: Predicate | None

    def write(self, rows: Batches, clock: WriteClock, task: int) -> TaskMessage[Written]:
        target = replace(self.target, rules=of_session(self.target.rules))
        partitions = write_partitions(target, rows)
        fragments = [fragment for written in partitions for fragment in written.fragments]
        return TaskMessage(clock.report(fragments), partitions)

    def commit(self, parts: Sequence[Written]) -> None:
        partitions = [partition for part in parts for partition in part]
        commit_partitions(self.target, partitions, self.replaced)

    def discard_refused(self) -> None:
        """Do nothing: `commit_partitions` has deleted them, with the tables that it has made."""


def rows_to_partitions(
    version: PartitionedVersion,
    schema: StructType,
    overwrite: bool,
    options: SparkWriteOptions,
) -> Partitions:
    """Prepare to write rows with `schema`."""
    is_dynamic = options.partitionOverwriteMode == "dynamic"
    _check(options, overwrite, is_dynamic, version.root.uri)
    mode: PartitionMode = "append"
    replaced = None
    if options.replaceWhere is not None:
        mode = "replace"
        replaced = parse(options.replaceWhere, from_arrow(version.schema), None)
    elif overwrite:
        mode = "dynamic" if is_dynamic else "overwrite"
    columns = stored(schema, options.sizes)
    target = begin(version.root, columns, mode, options.write, within=replaced)
    store = ManifestTable(target.root).store
    job = Job(store, target.version, target.job, partial(discard_job, target))
    return Partitions(job, target, replaced)


def _check(options: SparkWriteOptions, overwrite: bool, is_dynamic: bool, uri: str) -> None:
    """Raise InvalidOptionError for options that do not apply, or do not go together."""
    both = "the options replaceWhere and partitionOverwriteMode=dynamic"
    if options.write_mode == "create":
        what = f"{uri} is a partitioned namespace, which exists: write_mode=create does not apply"
        raise InvalidOptionError(what)
    if "overwriteSchema" in options.given and options.write.overwrite_schema:
        what = "the option overwriteSchema does not apply to partitioned namespaces"
        raise InvalidOptionError(f"{what}, whose columns stay")
    if not overwrite and (options.replaceWhere is not None or is_dynamic):
        raise InvalidOptionError(f"{both} need Spark's mode overwrite")
    if options.replaceWhere is not None and is_dynamic:
        raise InvalidOptionError(f"give only one of {both}")
