"""The rows of a search that the driver finds for Spark's planner (FoundRows.java): alone, or with tasks on the executors.

The planner asks with what tasks have returned so far, at first nothing. The answer is the rows, or that a scan finds them, or tasks to be
run: then the planner runs them and asks again, and the search takes their results instead of running them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from lance_spark.errors import LanceError
from lance_spark.spark.protocol import Answer, Found
from lance_spark.spark.read.tasks import TasksPartition, TasksReader, result_of
from lance_spark.spark.workers.import_cache import brief_errors
from lance_spark.table.scan.runner import Runner

_GROUPS_PER_CORE = 4
"""Spark tasks per core: with several, a long one does not keep the other cores waiting."""


class SearchReader(TasksReader):
    """Answers the planner, which has the `results` of all tasks so far (see `planner.scan.request`); `cores` run tasks at once.

    `found` are the rows of the search, whose tasks a runner runs; None if a scan is to find them.
    """

    def __init__(self, found: Callable[[Runner], pa.Table | None], results: Sequence[Sequence[str]], cores: int) -> None:
        self._found, self._results, self._cores = found, results, cores

    @brief_errors()
    def partitions(self) -> list[InputPartition]:
        """The answer: one partition with the rows, or the tasks."""
        try:
            found = self._found(_Recorded(self._cores, iter(self._results)))
        except _WantedError as wanted:
            groups = np.array_split(np.arange(len(wanted.tasks)), min(len(wanted.tasks), self._cores * _GROUPS_PER_CORE))
            return [TasksPartition([wanted.tasks[i] for i in group]) for group in groups]
        if found is None:
            return [Answer(Found(Found.BY_A_SCAN, b""))]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, found.schema) as stream:
            stream.write_table(found)
        return [Answer(Found(Found.ROWS, sink.getvalue().to_pybytes()))]


class _WantedError(Exception):
    """A search needs the results of these tasks."""

    def __init__(self, tasks: Sequence[bytes]) -> None:
        super().__init__(f"{len(tasks)} tasks are to be run")
        self.tasks = tasks


@dataclass(frozen=True)
class _Recorded:
    """A runner (see `table.scan.runner.Runner`) that has the results of tasks which have been run, and raises _WantedError for others."""

    cores: int
    results: Iterator[Sequence[str]]

    def run(self, tasks: Sequence[Any], function: Callable[[Any], Any]) -> list[Any]:
        """The result of `function` for each task, in order."""
        if not tasks:
            return []
        known = next(self.results, None)
        if known is None:
            raise _WantedError([pickle.dumps((function, task)) for task in tasks])
        if len(known) != len(tasks):
            raise LanceError(f"a search has {len(tasks)} tasks, but had {len(known)} before: files of an index have changed; search again")
        return [result_of(result) for result in known]
