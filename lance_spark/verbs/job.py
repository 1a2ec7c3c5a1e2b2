"""Running the tasks of a verb on Spark's executors."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lance_spark.spark.workers.import_cache import start_task
from lance_spark.spark.workers.outcome import row_of, value_of, value_or_error
from lance_spark.table.changes.delta import DeltaPart, DeltaTarget
from lance_spark.table.changes.delta_writer import write_rows
from lance_spark.table.scan.runner import HereIfSmall, Runner

Task = TypeVar("Task")
Result = TypeVar("Result")
_GROUPS_PER_CORE = 4
"""Spark tasks per core: with several, a long one does not keep the other cores waiting."""


def run_tasks(spark: SparkSession, tasks: Sequence[Task], function: Callable[[Task], Result], cores: int | None = None) -> list[Result]:
    """The result of `function` for each task, in order; rows of the table do not pass through the JVM.

    Each runs as a Spark task. With `cores`, which run at once, Spark tasks run several if there are many: to start one takes Spark 0.1 s.
    """
    if not tasks:
        return []
    data = [pickle.dumps(task) for task in tasks]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        start_task()
        for batch in batches:
            for i in batch.column(0).to_pylist():
                yield row_of((i, value_or_error(partial(function, pickle.loads(data[i])))))

    numbers = spark.range(0, len(data), 1, len(data) if cores is None else min(len(data), cores * _GROUPS_PER_CORE))
    results = dict(_results(numbers.mapInArrow(work, "result binary")))
    return [results[i] for i in range(len(data))]


@dataclass(frozen=True)
class OnExecutors:
    """Runs tasks on the executors of a session, `cores` at once (see `table.scan.runner.Runner`)."""

    spark: SparkSession
    cores: int

    def run(self, tasks: Sequence[Task], function: Callable[[Task], Result]) -> list[Result]:
        """The result of `function` for each task, in order."""
        return run_tasks(self.spark, tasks, function, self.cores)


def nearby(spark: SparkSession, cores: int) -> Runner:
    """Runs tasks on the driver if all of them together are small, else on the executors."""
    return HereIfSmall(OnExecutors(spark, cores))


def on_partitions(rows: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Result]) -> list[Result]:
    """Call `function` with each partition of `rows` on an executor and return the results."""
    names = rows.columns

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        start_task()
        yield row_of((0, value_or_error(partial(function, (_renamed(batch, names) for batch in batches)))))

    # mapInArrow takes names with dots or backticks as paths.
    plain = rows.toDF(*(f"c{i}" for i in range(len(names))))
    return [result for _, result in _results(plain.mapInArrow(work, "result binary"))]


def _renamed(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    fields = [field.with_name(name) for field, name in zip(batch.schema, names)]
    return pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(fields, batch.schema.metadata))


def in_zone(spark: SparkSession, target: DeltaTarget) -> DeltaTarget:
    """The target in the time zone of the session, which defaults such as current_date() depend on."""
    rules = target.write.rules.in_zone(spark.conf.get("spark.sql.session.timeZone") or "UTC")
    return replace(target, write=replace(target.write, rules=rules))


def write_delta(rows: DataFrame, target: DeltaTarget) -> list[DeltaPart]:
    """Write delta rows (see `table.changes.delta`) on the executors and return the result of each writer."""
    return on_partitions(rows, partial(write_rows, target))


def _results(df: DataFrame) -> Iterator[tuple[int, Any]]:
    for row in df.collect():
        i, outcome = pickle.loads(row[0])
        yield i, value_of(outcome)
