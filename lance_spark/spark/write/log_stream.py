"""Putting a stream into a table's write-ahead log: rows are visible when the batch ends, without a commit of the table.

Tasks hand their rows to the end of the batch, which puts those of each shard into the log, in one process that keeps the
writers of the shards open. The number of the batch is noted in each shard, so that a batch that Spark repeats is put into
those that do not have it yet.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

from lance_spark.errors import InvalidOptionError, LanceError, UnsupportedFeatureError
from lance_spark.metadata.numbered_writes import APP_ID
from lance_spark.options.field import options_of
from lance_spark.spark.options.table_location import store_to_write
from lance_spark.spark.options.write import SparkWriteOptions
from lance_spark.spark.workers.import_cache import brief_errors, start_planning, start_task
from lance_spark.spark.workers.metrics import WriteClock
from lance_spark.spark.write.stream import LOCAL_QUERY_ID
from lance_spark.spark.write.writer import Batches, Messages, TaskMessage
from lance_spark.storage.store import Store
from lance_spark.table.changes.merge.log import merge_log
from lance_spark.table.mem_wal_writing.assignment import Assignment, put_batch
from lance_spark.table.scan.runner import Here
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot
from lance_spark.table.versions.write_ahead_log import shards_of
from lance_spark.table.write.options import WriteOptions
from lance_spark.table.write.rules import rules_of

_MOST_BYTES = 64 << 20
"""The rows of a task are in the memory of the driver's process at the end of the batch."""
_OF_LOG = ("logShard", "logDeleted", "logMergeEvery")
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class LogTarget:
    """The table whose log gets the rows, and how; see the options of these names."""

    store: Store
    shard: str | None
    deleted: str | None
    merge_every: int | None
    app: str | None


@dataclass
class LogMessage(TaskMessage[bytes]):
    """The rows of a task as an Arrow stream, the target, and the id of the query."""

    target: LogTarget
    query: str


def check_log_options(options: SparkWriteOptions) -> None:
    """Raise InvalidOptionError for options of the log without `putIntoLog`."""
    if not options.putIntoLog and (given := [name for name in _OF_LOG if name in options.given]):
        raise InvalidOptionError(f"the option {given[0]} needs putIntoLog=true")


def log_target(snapshot: Snapshot, overwrite: bool, options: SparkWriteOptions) -> LogTarget:
    """The target of a stream. Raises InvalidOptionError for options that say how a table is written, which have no effect."""
    if overwrite:
        raise UnsupportedFeatureError("the output mode complete replaces all rows of a table; putIntoLog needs the mode append")
    of_files = {option.name for option in options_of(WriteOptions).values()} - {APP_ID, "txnVersion", "allow_other_stores"}
    if given := sorted(of_files & options.given):
        raise InvalidOptionError(f"the option {given[0]} says how a table is written, and does not apply with putIntoLog")
    if rules_of(snapshot.manifest.schema, snapshot.manifest.config).needs_zone:
        what = "a default depends on the time zone of the session, which writers of the log do not know"
        raise UnsupportedFeatureError(f"{snapshot}: {what}; give the column a value")
    Assignment.of(snapshot, options.logShard)  # raises if rows cannot be assigned
    app = options.write.txn_app_id
    # A namespace may give a store with other rights for writing.
    store = store_to_write(options) if options.table is not None and options.branch is None else snapshot.store
    return LogTarget(store, options.logShard, options.logDeleted, options.logMergeEvery, app)


class LogStreamWriter(DataSourceArrowWriter, DataSourceStreamWriter):
    """Puts the batches of a stream into a log. `target` is None where a batch ends: the messages of its tasks have it."""

    def __init__(self, target: LogTarget | None) -> None:
        self._target = target

    @brief_errors()
    def write(self, iterator: Batches) -> LogMessage:
        """The rows of a task."""
        start_task()
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(LOCAL_QUERY_ID)
        if not query:
            raise LanceError("the task does not know the id of its streaming query; use LanceTable.putRows in foreachBatch")
        assert self._target is not None
        clock = WriteClock()
        batches = [batch for batch in clock.rows(iterator) if batch.num_rows]
        if sum(batch.nbytes for batch in batches) > _MOST_BYTES:
            what = f"a task of the batch has more than {_MOST_BYTES >> 20} MiB of rows to put into the log"
            raise UnsupportedFeatureError(f"{what}; use LanceTable.putRows in foreachBatch, or smaller batches")
        sink = pa.BufferOutputStream()
        if batches:
            with pa.ipc.new_stream(sink, batches[0].schema) as out:
                for batch in batches:
                    out.write_batch(batch)
        return LogMessage(clock.report(()), sink.getvalue().to_pybytes(), self._target, query)

    @brief_errors()
    def commit(self, messages: Messages, batchId: int) -> None:  # type: ignore[override]
        """Put the rows of all tasks into the log."""
        start_planning()
        found = [message for message in messages if isinstance(message, LogMessage)]
        if not found or len(found) != len(messages):
            raise LanceError("a task of the batch returned no message; start the query again")
        target, query = found[0].target, found[0].query
        tables = [pa.ipc.open_stream(message.part).read_all() for message in found if message.part]
        if tables:
            snapshot = open_snapshot(target.store)
            rows = pa.concat_tables(tables)
            app = query if target.app is None else target.app
            put_batch(snapshot, target.shard, rows, target.deleted, app, batchId)
            _merge(snapshot, target.merge_every)
        _LOG.info("batch %d of query %s is in the log: %d tasks", batchId, query, len(messages))

    def abort(self, messages: Messages, batchId: int) -> None:  # type: ignore[override]
        """Nothing: what is in a shard is noted there, and is not put again."""


def _merge(snapshot: Snapshot, merge_every: int | None) -> None:
    """Merge the log if a shard has so many generations that are not merged."""
    if merge_every is None:
        return
    waiting: Sequence[int] = [len(shard.sstables) for shard in shards_of(snapshot)]
    if sum(waiting) >= merge_every:
        for _ in merge_log(snapshot, WriteOptions(), Here()):
            pass
