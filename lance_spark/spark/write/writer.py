"""Writing a table from Spark: executors write data files, and the driver commits all of them in one version, or none."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from lance_spark.errors import InvalidOptionError, LanceError, SchemaMismatchError, UnsupportedFeatureError, on_failure, on_refusal
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.transaction_ids import ids_of
from lance_spark.predicate import Predicate, parse
from lance_spark.schema.declared_types import DECLARED
from lance_spark.schema.schema import from_arrow
from lance_spark.spark.again import Job, JobWriter
from lance_spark.spark.columns.types import stored
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.spark.protocol import DECLARED_COLUMN, FewRows, Writer
from lance_spark.spark.workers.import_cache import brief_errors, start_planning, start_task
from lance_spark.spark.workers.metrics import TaskMessage, WriteClock
from lance_spark.storage.store import Store
from lance_spark.table.changes.replace_where import replace_where
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write import write
from lance_spark.table.write.defaults import MACHINE
from lance_spark.table.write.nullability import loosened
from lance_spark.table.write.rules import Rules
from lance_spark.table.write.target import Mode, WriteTarget

STOPPED_AFTER_S = 5.0
"""Time until Spark has killed the workers of a failed job: it checks every 2 s and waits `spark.python.task.killTimeout` (2 s)."""
_ZONE = "spark.sql.session.timeZone"


@dataclass
class LanceCommitMessage(TaskMessage):
    """The fragments that a task has written."""

    fragments: tuple[Fragment, ...]


class LanceWriter(JobWriter):
    """Writes a DataFrame to a table. Created on the driver, and pickled for the tasks and for the process that commits."""

    def __init__(
        self,
        place: str | Store | Snapshot,
        schema: StructType,
        overwrite: bool,
        options: SparkWriteOptions,
        there: pa.Schema | None = None,
        replaced: Predicate | None = None,
    ) -> None:
        """`place` is that of `begin_write`. `there` is the schema of the existing table, if any.

        Columns are nullable, except those of a primary key, and those that are not nullable in the existing table. Overwriting keeps CHAR
        and so on. A statement that replaces a table of the session catalog has declared all columns anew.
        The rows that satisfy `replaced` are replaced, whatever the new rows are. With the option replaceWhere, these must satisfy it, too,
        also those of a new table.
        """
        if overwrite and options.write_mode == "create":
            raise InvalidOptionError("the option write_mode=create requires Spark's mode append, not overwrite")
        if options.replaceWhere is not None and not overwrite:
            raise InvalidOptionError("the option replaceWhere requires Spark's mode overwrite")
        if options.replaceWhere is not None and there is not None:
            for name, given in (("mergeSchema", options.write.merge_schema), ("overwriteSchema", options.write.overwrite_schema)):
                if name in options.given and given:
                    advice = "add columns with ALTER TABLE, or addColumns, before"
                    raise InvalidOptionError(f"replaceWhere keeps the columns of the table, so {name}=true does not apply; {advice}")
        if options.partitionOverwriteMode == "dynamic":
            raise UnsupportedFeatureError(
                "partitionOverwriteMode=dynamic, and overwritePartitions(), require a partitioned namespace; use replaceWhere for a table, "
                "or INSERT OVERWRITE without it to replace all rows"
            )
        new = stored(schema, options.sizes)
        self._replaced, allowed = replaced, None
        if options.replaceWhere is not None:
            allowed = parse(options.replaceWhere, from_arrow(new if there is None else there), None)
            if there is not None:
                self._replaced, overwrite = allowed, False
        mode: Mode = "overwrite" if overwrite else "create" if options.write_mode == "create" else "append"
        declared = {f.name for f in schema.fields if DECLARED_COLUMN in f.metadata}
        replaces_columns = overwrite and "overwriteSchema" not in options.given
        new = loosened(new, None if replaces_columns and declared else there, declared=declared)
        if replaces_columns and there is not None and not declared:
            new = pa.schema(_as_declared(list(new), list(there)))
        target = write.begin_write(place, new, mode, options.write)
        self._target = replace(target, rules=replace(target.rules, within=allowed))
        # Few rows are written without a task, and only tasks know the time zone of the session.
        self.few = Writer.NONE if target.rules.needs_zone else Writer.ROWS

    @property
    def job(self) -> Job:
        """What is written, for a commit that is asked again."""
        return Job(self._target.store, self._target.read_version, self._target.job)

    def numbered(self, app: str, number: int, properties: Mapping[str, str]) -> LanceWriter:
        """This writer for the write `number` of `app`, or of the user's own txnAppId, with these properties in the transaction."""
        options = self._target.options
        app = app if options.txn_app_id is None else options.txn_app_id
        noted = replace(options, txn_app_id=app, txn_version=number, properties={**options.properties, **properties})
        other = LanceWriter.__new__(LanceWriter)
        other.__dict__ = {**self.__dict__, "_target": replace(self._target, options=noted)}
        return other

    @brief_errors()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> LanceCommitMessage:
        """Write a task's rows to data files, which no version refers to yet. If this fails, they are deleted."""
        start_task()
        clock = WriteClock()
        target = replace(self._target, rules=of_session(self._target.rules)).from_folder(partition_id())
        fragments = write.write_fragments(target, clock.rows(iterator))
        return LanceCommitMessage(clock.report(fragments), fragments)

    @brief_errors()
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the files of all tasks. After an error they are deleted, unless the version may exist."""
        start_planning()
        if None in messages:
            raise no_message(messages.count(None), len(messages))
        fragments = self._fragments(messages)
        with ids_of(self.job.request), on_refusal(lambda: write.discard(self._target, fragments)):
            if self._replaced is not None:
                replace_where(self._target, self._replaced, fragments)
            else:
                write.commit_write(self._target, fragments)

    def _fragments(self, messages: Sequence[WriterCommitMessage | None]) -> list[Fragment]:
        """The fragments of all tasks, in order. Those of few rows are written here; if this fails, the files of all tasks are deleted."""
        fragments = {i: m.fragments for i, m in enumerate(messages) if isinstance(m, LanceCommitMessage)}
        with on_failure(lambda: write.discard(self._target, [f for some in fragments.values() for f in some])):
            for i, message in enumerate(messages):
                if isinstance(message, FewRows) and message.rows:
                    fragments[i] = write.write_fragments(self._target.from_folder(i), pa.ipc.open_stream(message.rows))
        return [fragment for i in sorted(fragments) for fragment in fragments[i]]

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete the files of all tasks; see `abort_job`."""
        abort_job(self._target, messages)


def partition_id() -> int:
    """The number of the partition of this task; 0 outside of tasks."""
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def of_session(rules: Rules) -> Rules:
    """The rules in a task of a session, whose time zone defaults such as current_date() depend on."""
    if not rules.needs_zone:
        return rules
    context = TaskContext.get()
    zone = None if context is None else context.getLocalProperty(_ZONE)
    return rules.in_zone(zone or MACHINE)


def abort_job(target: WriteTarget, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Delete the files of all tasks, including tasks that are still running after another one has failed.

    Spark also calls this after a failed commit. Then every task has a message, and `commit` has already handled the files. This call
    keeps them, because it runs in another process and does not know whether a version refers to them.
    """
    if None in messages:
        write.discard_job(target)
    if messages.count(None) > 1:
        time.sleep(STOPPED_AFTER_S)
        write.discard_job(target)


def no_message(missing: int, tasks: int) -> LanceError:
    """The error that tasks, which should have written rows, returned nothing."""
    return LanceError(f"{missing} of {tasks} tasks returned no commit message; nothing was committed: run the write again")


def _as_declared(new: Sequence[pa.Field], old: Sequence[pa.Field]) -> list[pa.Field]:
    """Columns of strings with the declared types of old columns of the same name: Spark does not say the length of a CHAR column."""
    records = {f.name.lower(): f.metadata[DECLARED] for f in old if f.metadata and DECLARED in f.metadata and pa.types.is_string(f.type)}
    return [
        f.with_metadata({DECLARED: records[f.name.lower()], **(f.metadata or {})})
        if f.name.lower() in records and pa.types.is_string(f.type)
        else f
        for f in new
    ]


def commit_empty(place: Store, schema: StructType, mode: Mode, options: SparkWriteOptions) -> None:
    """Create or replace a table by one without rows, in one commit."""
    if not schema.fields:
        raise SchemaMismatchError("a table needs at least one column")
    write.commit_write(write.begin_write(place, stored(schema, options.sizes), mode, options.write), ())
