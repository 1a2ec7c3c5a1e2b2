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
class Parts:
    """A read in tasks, on the driver.

    `rows_only`: only the number of rows matters. `cores` run the tasks (None: unknown), and each reads about `max_bytes` at most.
    `num_fragments` is the number of fragments of the table, if it is known before its tasks run.
    """

    tasks: Tasks
    rows_only: bool = False
    cores: int | None = None
    max_bytes: int = MAX_TASK_BYTES
    num_fragments: int | None = None

    def partitions(self) -> list[InputPartition]:
        """The tasks as partitions of Spark."""
        # Without our planner, the cluster's size is unknown here; the driver's cores are the closest estimate.
        tasks = self.tasks(self.cores or os.cpu_count() or 1, self.max_bytes)
        elsewhere, seen = _elsewhere(tasks)
        skipped = 0 if self.num_fragments is None else self.num_fragments - seen
        return [LancePartition(task, self.rows_only, skipped, elsewhere.get(i, frozenset())) for i, task in enumerate(tasks)]


class Returned:
    """What Spark gets of the rows that a task reads. Executors know no more of a read than this and the task.

    They are aggregated, or have `texts` added and are converted. `reports`: tasks send their cost to the JVM, see `workers.metrics`.
    With `lists`, batches are returned as these.
    """

    def __init__(
        self,
        conversion: Conversion,
        aggregation: Aggregation | None = None,
        texts: TextColumns | None = None,
        reports: bool = False,
        lists: ColumnLists | None = None,
    ) -> None:
        self.conversion = conversion
        self.aggregation = aggregation
        # Tasks without such columns do not import what adds them.
        self.texts = texts if texts is not None and texts.conditions else None
        self.reports = reports
        self.lists = lists

    def of(self, partition: LancePartition, cost: Cost) -> Iterator[pa.RecordBatch]:
        """The batches of a task, in exactly the promised schema, or as lists."""
        batches = self._rows(partition, cost)
        return batches if self.lists is None else map(self.lists.of, batches)

    def _rows(self, partition: LancePartition, cost: Cost) -> Iterator[pa.RecordBatch]:
        if partition.rows_only:
            return (blank(self.conversion.promised, rows) for rows in partition.task.row_counts(cost))
        batches = partition.task.read(cost)
        if self.aggregation is None:
            return self.converted(batches)
        if self.aggregation.counts_rows:
            result = self.aggregation.result
            return (_repeated(batch.column(0), result) for batch in batches)
        return partial(self.aggregation, map(self.conversion.apply, batches))

    def converted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of rows."""
        return map(self.conversion.apply, batches if self.texts is None else map(self.texts.added_to, batches))


class LanceReader(DataSourceReader):
    """The reader of the parts of a read: of the rows of a table or of a partitioned namespace, of a search, or of changes."""

    def __init__(self, parts: Parts, returned: Returned) -> None:
        self._parts = parts
        self._returned = returned

    def return_lists(self, lists: ColumnLists) -> None:
        """Return batches as these lists from now on."""
        made = self._returned
        conversion = replace(made.conversion, keeps_dictionaries=made.aggregation is None)
        self._returned = Returned(conversion, made.aggregation, made.texts, made.reports, lists)

    @brief_errors()
    def partitions(self) -> list[InputPartition]:
        """The tasks of the scan."""
        return self._parts.partitions()

    def found(self, runner: Runner) -> pa.Table | None:
        """The rows of a search for vectors, which this process finds with the tasks of `runner`; None if it is not for this process."""
        (task,) = cast("Sequence[SearchTask]", self._parts.tasks(1, self._parts.max_bytes))
        found = task.found(runner)
        if found is None:
            return None
        batches = list(self._returned.converted(found.to_batches()))
        # Spark does not take columns without chunks.
        return pa.Table.from_batches(batches or [pa.RecordBatch.from_pylist([], schema=self._returned.conversion.promised)])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the batches of one task."""
        start_task()
        assert isinstance(partition, LancePartition)
        cost = Cost(partition.elsewhere)
        with brief_errors():
            yield from self._returned.of(partition, cost)
        if self._returned.reports:
            report(cost)

    def __getstate__(self) -> dict[str, Any]:
        return {"_returned": self._returned}


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
