"""Tasks that executors run for a question of the JVM (TaskLoop.java): those of a search, and those of an operation.

A task is a function and its argument, pickled. Its result is handed back as it is to what asks the question again.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lance_spark.spark.protocol import Found, Headed, handed_back
from lance_spark.spark.workers.import_cache import start_task
from lance_spark.spark.workers.outcome import row_of, value_of, value_or_error


class TasksPartition(Headed, InputPartition):
    """Tasks that one executor runs, one after the other."""

    def __init__(self, tasks: Sequence[bytes]) -> None:
        super().__init__(None)
        self.tasks = tasks

    def header(self) -> Found:
        """That these are tasks."""
        return Found(Found.TASKS, b"")


class TasksReader(DataSourceReader):
    """Runs tasks, and returns a row for each. Executors get nothing but the tasks."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The results of the tasks of a partition."""
        start_task()
        if not isinstance(partition, TasksPartition):
            return  # Without partitions, Spark reads one of its own.
        for task in partition.tasks:
            function, argument = pickle.loads(task)
            yield row_of(value_or_error(partial(function, argument)))

    def __getstate__(self) -> dict[str, Any]:
        return {}


def result_of(text: str) -> Any:
    """What a task returned, as the JVM hands it back. Raises the error of the task."""
    return value_of(handed_back(text))
