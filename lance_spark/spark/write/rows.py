"""Writing rows to a table: they come in addition to its rows, in their place, or in the place of some."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.errors import InvalidOptionError, SchemaMismatchError, UnsupportedFeatureError
from lance_spark.metadata.fragment import Fragment
from lance_spark.predicate import Predicate, parse
from lance_spark.schema.schema import from_arrow
from lance_spark.spark.again import Job
from lance_spark.spark.columns.types import stored
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.spark.protocol import DECLARED_COLUMN, Writer
from lance_spark.spark.workers.metrics import WriteClock
from lance_spark.spark.write.writer import TaskMessage, Write, of_session
from lance_spark.storage.store import Store
from lance_spark.table.changes.replace_where import replace_where
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.settled import Frame
from lance_spark.table.write.target import Mode, WriteTarget
from lance_spark.table.write.write import begin_write, commit_write, discard_job, write_fragments


@dataclass(frozen=True)
class Rows(Write[tuple[Fragment, ...]]):
    """New rows of a table, as `target` says, or in the place of those that satisfy `replaced`."""

    target: WriteTarget
    replaced: Predicate | None = None

    @property
    def few(self) -> int:
        # Only tasks know the time zone of the session.
        return Writer.NONE if self.target.rules.needs_zone else Writer.ROWS

    @property
    def job(self) -> Job:
        return Job(self.target.store, self.target.read_version, self.target.job)

    def write(self, rows: Iterator[pa.RecordBatch], clock: WriteClock) -> TaskMessage[tuple[Fragment, ...]]:
        target = replace(self.target, rules=of_session(self.target.rules))
        fragments = write_fragments(target, rows)
        return TaskMessage(clock.report(fragments), fragments)

    def commit(self, parts: Sequence[tuple[Fragment, ...]]) -> None:
        fragments = [fragment for part in parts for fragment in part]
        if self.replaced is not None:
            replace_where(self.target, self.replaced, fragments)
        else:
            commit_write(self.target, fragments)

    def discard(self) -> None:
        discard_job(self.target)


def rows_to(
    place: Store | Snapshot,
    schema: StructType,
    overwrite: bool,
    options: SparkWriteOptions,
    replaced: Predicate | None = None,
) -> Rows:
    """Prepare to write rows with `schema`; `place` is that of `begin_write`.

    The rows that satisfy `replaced` are replaced, whatever the new rows are. With the option replaceWhere, these must satisfy it, too, also
    those of a new table.
    """
    table = place if isinstance(place, Snapshot) else None
    _check(options, overwrite, table is not None)
    columns, within = stored(schema, options.sizes), None
    if options.replaceWhere is not None:
        known = from_arrow(columns) if table is None else table.manifest.schema
        within = parse(options.replaceWhere, known, None)
        if table is not None:
            replaced, overwrite = within, False
    mode: Mode = "append"
    if overwrite:
        mode = "overwrite"
    elif options.write_mode == "create":
        mode = "create"
    declared = frozenset(f.name for f in schema.fields if DECLARED_COLUMN in f.metadata)
    frame = Frame(declared, keeps_lengths="overwriteSchema" not in options.given)
    target = begin_write(place, columns, mode, options.write, frame)
    return Rows(replace(target, rules=replace(target.rules, within=within)), replaced)


def _check(options: SparkWriteOptions, overwrite: bool, is_table: bool) -> None:
    """Raise InvalidOptionError for options that do not go together, and UnsupportedFeatureError for those of namespaces."""
    if overwrite and options.write_mode == "create":
        raise InvalidOptionError("the option write_mode=create requires Spark's mode append, not overwrite")
    if options.replaceWhere is not None and not overwrite:
        raise InvalidOptionError("the option replaceWhere requires Spark's mode overwrite")
    changes = {"mergeSchema": options.write.merge_schema, "overwriteSchema": options.write.overwrite_schema}
    for name, is_true in changes.items():
        if options.replaceWhere is not None and is_table and is_true and name in options.given:
            advice = "add columns with ALTER TABLE, or addColumns, before"
            raise InvalidOptionError(f"replaceWhere keeps the columns of the table, so {name}=true does not apply; {advice}")
    if options.partitionOverwriteMode == "dynamic":
        raise UnsupportedFeatureError(
            "partitionOverwriteMode=dynamic, and overwritePartitions(), require a partitioned namespace; use replaceWhere for a table, "
            "or INSERT OVERWRITE without it to replace all rows"
        )


def commit_empty(place: Store, schema: StructType, mode: Mode, options: SparkWriteOptions) -> None:
    """Create or replace a table by one without rows, in one commit."""
    if not schema.fields:
        raise SchemaMismatchError("a table needs at least one column")
    commit_write(begin_write(place, stored(schema, options.sizes), mode, options.write), ())
