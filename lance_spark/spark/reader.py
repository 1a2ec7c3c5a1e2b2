"""Reading a table for Spark: the driver splits the scan into tasks; an executor reads a task and returns Arrow batches."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lance_spark.spark.aggregation.partial import Aggregation, partial
from lance_spark.spark.batches import Conversion, blank
from lance_spark.spark.workers.import_cache import brief_errors, start_task
from lance_spark.spark.workers.metrics import report
from lance_spark.table.scan.cost import Cost, FragmentName
from lance_spark.table.scan.plan import MAX_TASK_BYTES, ScanPlan, plan_tasks
from lance_spark.table.scan.task import ScanTask
from lance_spark.table.versions.snapshot import Snapshot

if TYPE_CHECKING:
    from lance_spark.namespace.partitioned.root import PartitionedVersion
    from lance_spark.table.feed.changes import Changes
    from lance_spark.table.scan.runner import Runner
    from lance_spark.table.search.search import Search

SIZE_MARK = b"LanceSize:"
PARTITIONED_MARK = b"LancePartitioned:"
"""In the pickle of a source of a partitioned namespace: LanceTable.java looks for it."""
VERSION_MARK = b"LanceVersion:"
"""In the pickle of a source of a table, before the pinned version and its identity: LanceTable.java looks for it."""


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


class LancePartition(InputPartition):
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

    def __reduce__(self) -> tuple[Any, ...]:
        # LanceTable.java searches for this mark in the pickle, where it precedes all user data.
        task, indexes = self.task, self.task.indexes.encode()
        size = SIZE_MARK + struct.pack("<qqqqqi", task.num_rows, task.num_bytes, *task.tables, self.skipped, len(indexes)) + indexes
        return _with_size, (size, self.task, self.rows_only, self.skipped, self.elsewhere)


def _with_size(_: bytes, task: Task, rows_only: bool, skipped: int, elsewhere: frozenset[FragmentName]) -> LancePartition:
    return LancePartition(task, rows_only, skipped, elsewhere)


@dataclass(frozen=True)
class Partitioning:
    """Limits for splitting a scan into tasks: `cores` run them (None: unknown), and each reads about `max_bytes` at most."""

    cores: int | None = None
    max_bytes: int = MAX_TASK_BYTES


class LanceReader(DataSourceReader):
    """The reader of one plan over a version of a table or of a partitioned namespace.

    `reports`: tasks send their cost to the JVM, see `workers.metrics`. Only this, the conversion and the aggregation are pickled for
    the executors. With a `search`, the rows are those that it finds; with `changes`, these.
    """

    def __init__(
        self,
        snapshot: Snapshot | PartitionedVersion,
        plan: ScanPlan,
        conversion: Conversion,
        rows_only: bool = False,
        size: Partitioning = Partitioning(),
        aggregation: Aggregation | None = None,
        reports: bool = False,
        search: Search | None = None,
        changes: Changes | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._plan = plan
        self._conversion = conversion
        self._rows_only = rows_only
        self._size = size
        self._aggregation = aggregation
        self._reports = reports
        self._search = search
        self._changes = changes

    @brief_errors()
    def partitions(self) -> list[InputPartition]:
        """The tasks of the scan."""
        if self._search is not None:
            from lance_spark.table.search.task import search_task  # most reads are scans

            return [LancePartition(search_task(self._search), self._rows_only)]
        if self._changes is not None:
            from lance_spark.table.feed.task import changes_tasks

            return [LancePartition(task, self._rows_only) for task in changes_tasks(self._changes)]
        # Without our planner, the cluster's size is unknown here; the driver's cores are the closest estimate.
        cores, most = self._size.cores or os.cpu_count() or 1, self._size.max_bytes
        tasks: Sequence[Task]
        if isinstance(self._snapshot, Snapshot):
            tasks = plan_tasks(self._snapshot, self._plan, cores, most)
        else:
            from lance_spark.namespace.partitioned.scan import plan_partitioned  # most tables are not partitioned

            tasks = plan_partitioned(self._snapshot, self._plan, cores, most)
        seen: set[FragmentName] = set()
        partitions = []
        for task in tasks:
            own = {(one.table, part.fragment.id) for one in task.scans for part in one.parts}
            partitions.append(LancePartition(task, self._rows_only, elsewhere=frozenset(own & seen)))
            seen |= own
        # Planning does not open all tables of a partitioned namespace, so the number of their fragments is unknown.
        if isinstance(self._snapshot, Snapshot):
            for partition in partitions:
                partition.skipped = len(self._snapshot.manifest.lazy_fragments) - len(seen)
        return list[InputPartition](partitions)

    def found(self, runner: Runner) -> pa.Table | None:
        """The rows of a search for vectors, which this process finds with the tasks of `runner`; None if it is not for this process."""
        assert self._search is not None
        from lance_spark.table.search.task import search_task  # most reads are scans

        search = search_task(self._search).found(runner)
        if search is None:
            return None
        batches = list(map(self._conversion.apply, search.to_batches()))
        # Spark does not take columns without chunks.
        return pa.Table.from_batches(batches or [pa.RecordBatch.from_pylist([], schema=self._conversion.promised)])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the batches of one task, in exactly the promised schema."""
        start_task()
        assert isinstance(partition, LancePartition)
        cost = Cost(partition.elsewhere)
        with brief_errors():
            yield from self._read(partition, cost)
        if self._reports:
            report(cost)

    def _read(self, partition: LancePartition, cost: Cost) -> Iterator[pa.RecordBatch]:
        if partition.rows_only:
            return (blank(self._conversion.promised, rows) for rows in partition.task.row_counts(cost))
        batches = partition.task.read(cost)
        if self._aggregation is None:
            return map(self._conversion.apply, batches)
        if self._aggregation.counts_rows:
            result = self._aggregation.result
            return (_repeated(batch.column(0), result) for batch in batches)
        return partial(self._aggregation, map(self._conversion.apply, batches))

    def __getstate__(self) -> dict[str, Any]:
        return {"_conversion": self._conversion, "_aggregation": self._aggregation, "_reports": self._reports}


def _repeated(column: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([column] * len(schema), schema=schema)
