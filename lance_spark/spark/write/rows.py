"""Writing rows to a table: in addition to its rows, in their place, or in the place of some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql.types import StructType

from lance_spark.errors import InvalidOptionError, SchemaMismatchError, UnsupportedFeatureError
from lance_spark.metadata.fragment import Fragment
from lance_spark.predicate import Predicate, parse
from lance_spark.schema.schema import from_arrow
from lance_spark.spark.columns.types import stored
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.spark.protocol import DECLARED_COLUMN, Writer
from lance_spark.spark.workers.metrics import WriteClock
from lance_spark.spark.write.writer import Batches, Job, TaskMessage, Write, of_session
from lance_spark.storage.store import Store
from lance_spark.table.changes.replace_where import replace_where
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.settled import Frame
from lance_spark.table.write.target import Mode, WriteTarget
from lance_spark.table.write.write import begin_write, commit_write, write_fragments

Fragments = tuple[Fragment, ...]


@dataclass(frozen=True)
class Rows(Write[Fragments]):
    """New rows of a table, as `target` says, or in the place of those that satisfy `replaced`."""

    job: Job
    target: WriteTarget
    replaced: Predicate | None = None

    @property
    def few(self) -> int:
        # Only tasks know the time zone of the session.
        return Writer.NONE if self.target.rules.needs_zone else Writer.ROWS

    def write(self, rows: Batches, clock: WriteClock, task: int) -> TaskMessage[Fragments]:
        target = replace(self.target, rules=of_session(self.target.rules)).from_folder(task)
        fragments = write_fragments(target, rows)
        return TaskMessage(clock.report(fragments), fragments)

    def commit(self, parts: Sequence[Fragments]) -> None:
        fragments = [fragment for part in parts for fragment in part]
        if self.replaced is not None:
            replace_where(self.target, self.replaced, fragments)
        else:
            commit_write(self.target, fragments)


def rows_to(
    place: Store | Snapshot,
    schema: StructType,
    overwrite: bool,
    options: SparkWriteOptions,
    replaced: Predicate | None = None,
) -> Rows:
    """Prepare to write rows with `schema`; `place` is that of `begin_write`.

    The rows that satisfy `replaced` are replaced, whatever the new rows are. With the option
    replaceWhere, these must satisfy it, too, also those of a new table.
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
    target = replace(target, rules=replace(target.rules, within=within))
    return Rows(Job.of(target, target.job), target, replaced)


def _check(options: SparkWriteOptions, overwrite: bool, is_table: bool) -> None:
    """Raise InvalidOptionError for options that do not go together.

    Raises UnsupportedFeatureError for an option that is for namespaces.
    """
    if overwrite and options.write_mode == "create":
        what = "the option write_mode=create requires Spark's mode append, not overwrite"
        raise InvalidOptionError(what)
    if options.replaceWhere is not None and not overwrite:
        raise InvalidOptionError("the option replaceWhere requires Spark's mode overwrite")
    if options.replaceWhere is not None and is_table:
        write = options.write
        _check_kept("mergeSchema", write.merge_schema, options)
        _check_kept("overwriteSchema", write.overwrite_schema, options)
    if options.partitionOverwriteMode == "dynamic":
        raise UnsupportedFeatureError(
            "partitionOverwriteMode=dynamic, and overwritePartitions(), require a partitioned "
            "namespace; use replaceWhere for a table, or INSERT OVERWRITE without it to replace "
            "all rows"
        )


def _check_kept(name: str, is_true: bool, options: SparkWriteOptions) -> None:
    if is_true and name in options.given:
        what = f"replaceWhere keeps the columns of the table, so {name}=true does not apply"
        advice = "add columns with ALTER TABLE, or addColumns, before"
        raise InvalidOptionError(f"{what}; {advice}")


def commit_empty(place: Store, schema: StructType, mode: Mode, options: SparkWriteOptions) -> None:
    """Create or replace a table by one without rows, in one commit."""
    if not schema.fields:
        raise SchemaMismatchError("a table needs at least one column")
    commit_write(begin_write(place, stored(schema, options.sizes), mode, options.write), ())
