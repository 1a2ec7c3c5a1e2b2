"""Running the tasks of a verb on Spark's executors, and again from the new version when other writers got in between."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lance_spark.errors import CommitConflictError, LanceError, StorageError
from lance_spark.metadata.operations import Append
from lance_spark.metadata.transaction import Transaction
from lance_spark.spark.import_cache import keep_import_cache_small
from lance_spark.table.changes.delta import Delta, DeltaPart, DeltaTarget, Intent, commit_delta, united
from lance_spark.table.changes.delta_writer import write_rows
from lance_spark.table.commit.idempotence import done_before
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot
from lance_spark.table.write.write import WriteOptions, WriteTarget, discard_job, rewrite_target

TRIES = 10
"""How often a change is made again from the new version when others changed the same rows meanwhile; as in pylance."""

Task = TypeVar("Task")
Result = TypeVar("Result")
_RESULT = pa.schema([pa.field("result", pa.binary(), nullable=False)])


@dataclass(frozen=True)
class RowChanges:
    """What a change of rows did. `version` is the version that it made, or the latest one if nothing changed."""

    version: int
    num_deleted_rows: int = 0
    num_updated_rows: int = 0
    num_inserted_rows: int = 0
    num_files_added: int = 0
    num_bytes_added: int = 0


@dataclass(frozen=True)
class RowPlan:
    """A change of the rows of one version.

    `write` writes it and returns what each task did; `assigned` are the columns whose values delta rows bring for updates.
    """

    write: Callable[[DeltaTarget], list[DeltaPart]]
    intent: Intent
    assigned: tuple[str, ...] = ()
    adds_rows: bool = True


def run_tasks(spark: SparkSession, tasks: Sequence[Task], function: Callable[[Task], Result]) -> list[Result]:
    """The result of `function` for each task, in order. Each task is a Spark task; no row of the table passes the JVM."""
    if not tasks:
        return []
    data = [pickle.dumps(task) for task in tasks]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        keep_import_cache_small()
        for batch in batches:
            for i in batch.column(0).to_pylist():
                yield _row((i, _value_or_error(partial(function, pickle.loads(data[i])))))

    numbers = spark.range(0, len(data), 1, len(data))
    results = dict(_results(numbers.mapInArrow(work, "result binary")))
    return [results[i] for i in range(len(data))]


def write_partitions(rows: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Result]) -> list[Result]:
    """Give each partition of `rows` to `function` on an executor and return the results."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        keep_import_cache_small()
        yield _row((0, _value_or_error(partial(function, batches))))

    return [result for _, result in _results(rows.mapInArrow(work, "result binary"))]


def write_delta(rows: DataFrame, target: DeltaTarget) -> list[DeltaPart]:
    """Give delta rows (see `table.changes.delta`) to writers on the executors and return what each of them did."""
    return write_partitions(rows, partial(write_rows, target))


def _value_or_error(function: Callable[[], Result]) -> Result | LanceError:
    """The result of `function`, or the error of ours that it raised: Spark would wrap it, and try again in vain."""
    try:
        return function()
    except StorageError:
        raise
    except LanceError as e:
        return e


def _row(value: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"result": pickle.dumps(value)}], schema=_RESULT)


def _results(df: DataFrame) -> Iterator[tuple[int, Any]]:
    for row in df.collect():
        i, value = pickle.loads(row[0])
        if isinstance(value, LanceError):
            raise value
        yield i, value


def change_rows(
    snapshot: Snapshot,
    options: WriteOptions,
    plan: Callable[[Snapshot], RowPlan],
) -> RowChanges:
    """Make a change of rows and commit it; make it again from the new version when that one conflicts and may be tried again.

    Files of a change that is not committed are deleted. Raises CommitConflictError after `TRIES` tries.
    """
    for attempt in range(TRIES):
        if done := done_before(snapshot.store, Transaction(snapshot.version, Append(()), properties=options.noted)):
            return RowChanges(done.version)
        planned = plan(snapshot)
        target = rewrite_target(snapshot, options, planned.adds_rows)
        try:
            return _committed(snapshot, _written(snapshot, target, planned), planned.intent, target)
        except CommitConflictError as e:
            if not e.retryable or attempt == TRIES - 1:
                raise
        snapshot = replace(open_snapshot(snapshot.store), allow_other_stores=snapshot.allow_other_stores)
    raise AssertionError("unreachable")


def _written(snapshot: Snapshot, target: WriteTarget, planned: RowPlan) -> Delta:
    try:
        return united(planned.write(DeltaTarget(target, snapshot.version, planned.assigned, snapshot.allow_other_stores)))
    except BaseException:
        discard_job(target)
        raise


def _committed(snapshot: Snapshot, delta: Delta, intent: Intent, target: WriteTarget) -> RowChanges:
    files = [file for fragment in delta.new_fragments for file in fragment.files]
    done = RowChanges(
        snapshot.version, delta.num_deleted, delta.num_updated, delta.num_inserted, len(files), sum(f.size or 0 for f in files)
    )
    figures = {name: str(value) for name, value in vars(done).items() if name != "version"}
    new = commit_delta(snapshot, delta, intent, {**target.options.noted, **figures}, target)
    return replace(done, version=new.version)
