"""Reading a table for Spark: the driver splits the scan into tasks; an executor reads a task and returns Arrow batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lance_spark.spark.aggregation.partial import Aggregation, partial
from lance_spark.spark.columns.batches import Conversion, blank
from lance_spark.spark.protocol import Headed
from lance_spark.spark.protocol import Task as TaskHeader
from lance_spark.spark.workers.import_cache import brief_errors, start_task
from lance_spark.spark.workers.metrics import report
from lance_spark.table.scan.cost import Cost, FragmentName
from lance_spark.table.scan.plan import MAX_TASK_BYTES
from lance_spark.table.scan.task import ScanTask

if TYPE_CHECKING:
    from lance_spark.spark.read.column_lists import ColumnLists
    from lance_spark.spark.read.text_columns import TextColumns
    from lance_spark.table.scan.runner import Runner
    from lance_spark.table.search.task import SearchTask


class Task(Protocol):
    """A part of a read, of a table, a partitioned namespace, a search or changes; `ScanTask` describes the members."""

    @property
    def num_rows(self) -> int: ...
    @property
    def num_bytes(self) -> int: ...
    @property
    def indexes(self) -> str: ...
    @property
    def scans(self) -> tuple[ScanTask, ...]: ...
    @property
    def tables(self) -> tuple[int, int]: ...
    def read(self, cost: Cost | None = None) -> Iterator[pa.RecordBatch]: ...
    def row_counts(self, cost: Cost) -> Iterator[int]: ...


Tasks = Callable[[int, int], Sequence[Task]]
"""Divides a read among so many cores, in tasks of about so many bytes at most."""


class LancePartition(Headed, InputPartition):
    """A task of a scan. It is self-contained, since Spark may pass it to the reader of another plan of the same query.

    `rows_only`: only the number of rows matters, not their values. `skipped` is the number of fragments that no task of the scan reads, and
    `elsewhere` are those of `Cost`.
    """

    def __init__(self, task: Task, rows_only: bool, skipped: int = 0, elsewhere: frozenset[FragmentName] = frozenset()) -> None:
        super().__init__(None)
        self.task = task
        self.rows_only = rows_only
        self.skipped = skipped
        self.elsewhere = elsewhere

    def header(self) -> TaskHeader:
        """What the JVM knows of the task."""
        task = self.task
        return TaskHeader(task.num_rows, task.num_bytes, *task.tables, self.skipped, task.indexes)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.task, self.rows_only, self.skipped, self.elsewhere

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]


@dataclass(frozen=True)
class Partitioning:
    """Limits for splitting a scan into tasks: `cores` run them (None: unknown), and each reads about `max_bytes` at most."""

    cores: int | None = None
    max_bytes: int = MAX_TASK_BYTES


class LanceReader(DataSourceReader):
    """The reader of the rows of `tasks`: those of a table or of a partitioned namespace, of a search, or changes.

    `reports`: tasks send their cost to the JVM, see `workers.metrics`. Only this, the conversion and the aggregation are pickled for
    the executors. `num_fragments` is the number of fragments of the table, if it is known before its tasks run. `texts` are columns that
    are added to the rows.
    """

    def __init__(
        self,
        tasks: Tasks,
        conversion: Conversion,
        rows_only: bool = False,
        size: Partitioning = Partitioning(),
        aggregation: Aggregation | None = None,
        reports: bool = False,
        texts: TextColumns | None = None,
        num_fragments: int | None = None,
    ) -> None:
        self._tasks = tasks
        self._conversion = conversion
        self._rows_only = rows_only
        self._size = size
        self._aggregation = aggregation
        self._reports = reports
        # Tasks without such columns do not import what adds them.
        self._texts = texts if texts is not None and texts.conditions else None
        self._num_fragments = num_fragments
        self._lists: ColumnLists | None = None

    def return_lists(self, lists: ColumnLists) -> None:
        """Return batches as these lists from now on."""
        self._lists = lists
        self._conversion = replace(self._conversion, keeps_dictionaries=self._aggregation is None)

    @brief_errors()
    def partitions(self) -> list[InputPartition]:
        """The tasks of the scan."""
        # Without our planner, the cluster's size is unknown here; the driver's cores are the closest estimate.
        tasks = self._tasks(self._size.cores or os.cpu_count() or 1, self._size.max_bytes)
        elsewhere, seen = _elsewhere(tasks)
        skipped = 0 if self._num_fragments is None else self._num_fragments - seen
        return [LancePartition(task, self._rows_only, skipped, elsewhere.get(i, frozenset())) for i, task in enumerate(tasks)]

    def found(self, runner: Runner) -> pa.Table | None:
        """The rows of a search for vectors, which this process finds with the tasks of `runner`; None if it is not for this process."""
        (task,) = cast("Sequence[SearchTask]", self._tasks(1, self._size.max_bytes))
        found = task.found(runner)
        if found is None:
            return None
        batches = list(self._converted(found.to_batches()))
        # Spark does not take columns without chunks.
        return pa.Table.from_batches(batches or [pa.RecordBatch.from_pylist([], schema=self._conversion.promised)])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the batches of one task, in exactly the promised schema, or as lists."""
        start_task()
        assert isinstance(partition, LancePartition)
        cost = Cost(partition.elsewhere)
        with brief_errors():
            batches = self._read(partition, cost)
            yield from batches if self._lists is None else map(self._lists.of, batches)
        if self._reports:
            report(cost)

    def _read(self, partition: LancePartition, cost: Cost) -> Iterator[pa.RecordBatch]:
        if partition.rows_only:
            return (blank(self._conversion.promised, rows) for rows in partition.task.row_counts(cost))
        batches = partition.task.read(cost)
        if self._aggregation is None:
            return self._converted(batches)
        if self._aggregation.counts_rows:
            result = self._aggregation.result
            return (_repeated(batch.column(0), result) for batch in batches)
        return partial(self._aggregation, map(self._conversion.apply, batches))

    def _converted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return map(self._conversion.apply, batches if self._texts is None else map(self._texts.added_to, batches))

    def __getstate__(self) -> dict[str, Any]:
        names = "_conversion", "_aggregation", "_reports", "_texts", "_lists"
        return {name: getattr(self, name) for name in names}


def _elsewhere(tasks: Sequence[Task]) -> tuple[dict[int, frozenset[FragmentName]], int]:
    """The fragments of each task that an earlier one has, too, by the number of the task; and the number of all fragments."""
    ids: dict[str, list[tuple[int, np.ndarray]]] = {}
    for i, task in enumerate(tasks):
        for one in task.scans:
            ids.setdefault(one.table, []).append((i, one.fragment_ids))
    found: dict[int, set[FragmentName]] = {}
    count = 0
    for table, of_tasks in ids.items():
        own = np.concatenate([each for _, each in of_tasks])
        owners = np.repeat([i for i, _ in of_tasks], [len(each) for _, each in of_tasks])
        order = np.argsort(own, kind="stable")
        own, owners = own[order], owners[order]
        first = np.concatenate([[True], own[1:] != own[:-1]])[: len(own)]
        count += int(first.sum())
        again = np.flatnonzero(owners != owners[np.maximum.accumulate(np.where(first, np.arange(len(own)), 0))])
        for i, number in zip(owners[again].tolist(), own[again].tolist()):
            found.setdefault(i, set()).add((table, number))
    return {i: frozenset(names) for i, names in found.items()}, count


def _repeated(column: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([column] * len(schema), schema=schema)
