"""Rows that are put into a write-ahead log, and the MERGE of the log into its table."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lance_spark.errors import InvalidOptionError
from lance_spark.spark.workers.import_cache import start_task
from lance_spark.table.build.sharding import sharding_spec
from lance_spark.table.changes.merge.log import MergedSsTable, merge_log
from lance_spark.table.mem_wal_writing.assignment import Assignment, put_batch
from lance_spark.table.mem_wal_writing.configuration import initialize_log
from lance_spark.table.versions.identity import Pin
from lance_spark.table.versions.snapshot import open_pinned
from lance_spark.table.write.options import WriteOptions
from lance_spark.verbs.job import OnExecutors, on_partitions
from lance_spark.verbs.target import Target, given


class LogVerbs:
    """What a `LanceTable` does with the table's write-ahead log."""

    _target: Target

    def initializeMemWal(
        self,
        *,
        bucket_column: str | None = None,
        num_buckets: int | None = None,
        identity_column: str | None = None,
        unsharded: bool = False,
        maintained_indexes: Sequence[str] | None = None,
        **noted: Any,
    ) -> int:
        """Give a table a write-ahead log, into which `putRows` and streams put rows. Returns the new version.

        For the arguments see `Dataset.initialize_mem_wal`.
        """
        snapshot = self._target.latest()
        spec = sharding_spec(snapshot.manifest.schema, bucket_column, num_buckets, identity_column, unsharded)
        changed = initialize_log(snapshot, spec, maintained_indexes, properties=given(noted).noted)
        return self._target.refreshed(changed.version)

    def putRows(
        self,
        rows: DataFrame,
        *,
        deleted: str | None = None,
        shard: str | None = None,
        txnAppId: str | None = None,
        txnVersion: int | None = None,
    ) -> int:
        """Put the rows into the table's write-ahead log, where readers find them at once, and return how many were put.

        Rows replace those with their primary keys. Where the column `deleted`, which is not one of the table, is true, the row with this
        key is deleted. A key should come once: of several, it is not known which is the newest. Each row goes to the task that owns its
        shard, by the sharding of the log, or all go to one, which is put into the `shard`. A task has the rows of a shard in memory.

        With `txnAppId`, such as the name of a stream, and `txnVersion`, such as the number of its batch, a call that is repeated puts
        rows only into those shards that do not have them yet. Raises SchemaMismatchError for rows that the table cannot have.
        """
        if (txnAppId is None) != (txnVersion is None):
            raise InvalidOptionError("txnAppId and txnVersion go together")
        snapshot = self._target.latest()
        assignment = Assignment.of(snapshot, shard)
        app, number = txnAppId or uuid.uuid4().hex, 0 if txnVersion is None else txnVersion
        task = partial(_put, snapshot.pin, shard, deleted, app, number)
        placed = rows.coalesce(1) if shard is not None else _by_shard(rows, assignment)
        return self._target.refreshed(sum(on_partitions(placed, task)))

    def mergeMemWal(self, commit_message: str | None = None) -> list[MergedSsTable]:
        """Merge what the write-ahead log has flushed into the table, each generation in one commit, the oldest first.

        The log's writers can go on; what they have not flushed yet stays in the log. A generation is in the driver's memory while tasks
        look for its keys in the table and change its rows. Returns what was merged. See docs/mem-wal.md.
        """
        runner = OnExecutors(self._target.spark, self._target.cores())
        return self._target.refreshed(list(merge_log(self._target.latest(), WriteOptions(commit_message=commit_message), runner)))


_SHARD = "_shard"


def _by_shard(rows: DataFrame, assignment: Assignment) -> DataFrame:
    """The rows, those of a shard in one partition, with its name in a further column."""
    names = rows.columns

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        start_task()
        for batch in batches:
            named = pa.RecordBatch.from_arrays(batch.columns, names=names)
            for shard, own in assignment.divided(named):
                columns = [*own.columns, pa.repeat(pa.scalar(shard.name), own.num_rows)]
                yield pa.RecordBatch.from_arrays(columns, names=[*(f"c{i}" for i in range(len(names))), _SHARD])

    # mapInArrow takes names with dots or backticks as paths.
    plain = rows.toDF(*(f"c{i}" for i in range(len(names))))
    schema = plain.withColumn(_SHARD, F.lit("")).schema
    return plain.mapInArrow(work, schema).repartition(_SHARD).toDF(*names, _SHARD)


def _put(pin: Pin, shard: str | None, deleted: str | None, app: str, number: int, batches: Iterator[pa.RecordBatch]) -> int:
    """Put the rows of a task into the log."""
    found = [batch for batch in batches if batch.num_rows]
    if not found:
        return 0
    snapshot, rows = open_pinned(pin.store, pin.version, pin.identity), pa.Table.from_batches(found)
    return put_batch(snapshot, shard, rows if shard is not None else rows.drop_columns([_SHARD]), deleted, app, number)
