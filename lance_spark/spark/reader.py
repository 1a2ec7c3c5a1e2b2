"""Reading a table for Spark: the driver splits the scan into tasks; an executor reads a task and returns Arrow batches."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lance_spark.spark.aggregation.partial import Aggregation, partial
from lance_spark.spark.batches import Conversion, blank
from lance_spark.spark.import_cache import start_task
from lance_spark.table.scan.plan import MAX_TASK_BYTES, ScanPlan, ScanTask, plan_tasks
from lance_spark.table.scan.task import read_task, row_counts
from lance_spark.table.versions.snapshot import Snapshot

if TYPE_CHECKING:
    from lance_spark.namespace.partitioned.root import PartitionedVersion
    from lance_spark.namespace.partitioned.scan import PartitionedTask

SIZE_MARK = b"LanceSize:"
PARTITIONED_MARK = b"LancePartitioned:"
"""In the pickle of a source of a partitioned namespace: LanceTable.java looks for it."""
VERSION_MARK = b"LanceVersion:"
"""In the pickle of a source of a table, before the pinned version: LanceTable.java looks for it."""


class LancePartition(InputPartition):
    """A task of a scan. It is self-contained, since Spark may pass it to the reader of another plan of the same query.

    `rows_only`: only the number of rows matters, not their values.
    """

    def __init__(self, task: ScanTask | PartitionedTask, rows_only: bool) -> None:
        super().__init__(None)
        self.task = task
        self.rows_only = rows_only

    def __reduce__(self) -> tuple[Any, ...]:
        # LanceTable.java searches for this mark in the pickle, where it precedes all user data.
        task, counts, indexes = self.task, (0, 0), b""
        if isinstance(task, ScanTask):
            indexes = task.indexes.encode()
        else:
            counts = task.kept, task.total
        size = SIZE_MARK + struct.pack("<qqqqi", task.num_rows, task.num_bytes, *counts, len(indexes)) + indexes
        return _with_size, (size, self.task, self.rows_only)


def _with_size(_: bytes, task: ScanTask | PartitionedTask, rows_only: bool) -> LancePartition:
    return LancePartition(task, rows_only)


@dataclass(frozen=True)
class Partitioning:
    """Limits for splitting a scan into tasks: `cores` run them (None: unknown), and each reads about `max_bytes` at most."""

    cores: int | None = None
    max_bytes: int = MAX_TASK_BYTES


class LanceReader(DataSourceReader):
    """The reader of one plan over a version of a table or of a partitioned namespace.

    Only the conversion and the aggregation are pickled for the executors.
    """

    def __init__(
        self,
        snapshot: Snapshot | PartitionedVersion,
        plan: ScanPlan,
        conversion: Conversion,
        rows_only: bool = False,
        size: Partitioning = Partitioning(),
        aggregation: Aggregation | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._plan = plan
        self._conversion = conversion
        self._rows_only = rows_only
        self._size = size
        self._aggregation = aggregation

    def partitions(self) -> list[InputPartition]:
        """The tasks of the scan."""
        # Without our planner, the cluster's size is unknown here; the driver's cores are the closest estimate.
        cores, most = self._size.cores or os.cpu_count() or 1, self._size.max_bytes
        tasks: Sequence[ScanTask | PartitionedTask]
        if isinstance(self._snapshot, Snapshot):
            tasks = plan_tasks(self._snapshot, self._plan, cores, most)
        else:
            from lance_spark.namespace.partitioned.scan import plan_partitioned  # most tables are not partitioned

            tasks = plan_partitioned(self._snapshot, self._plan, cores, most)
        return [LancePartition(task, self._rows_only) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the batches of one task, in exactly the promised schema."""
        start_task()
        assert isinstance(partition, LancePartition)
        task = partition.task
        if partition.rows_only:
            for rows in _row_counts(task):
                yield blank(self._conversion.promised, rows)
        elif self._aggregation is None:
            yield from map(self._conversion.apply, _batches(task))
        elif self._aggregation.counts_rows:
            yield from (_repeated(batch.column(0), self._aggregation.result) for batch in _batches(task))
        else:
            yield from partial(self._aggregation, map(self._conversion.apply, _batches(task)))

    def __getstate__(self) -> dict[str, Any]:
        return {"_conversion": self._conversion, "_aggregation": self._aggregation}


def _batches(task: ScanTask | PartitionedTask) -> Iterator[pa.RecordBatch]:
    if isinstance(task, ScanTask):
        return read_task(task)
    from lance_spark.namespace.partitioned.scan import read_partitioned

    return read_partitioned(task)


def _row_counts(task: ScanTask | PartitionedTask) -> Iterator[int]:
    if isinstance(task, ScanTask):
        return row_counts(task)
    from lance_spark.namespace.partitioned.scan import partitioned_row_counts

    return partitioned_row_counts(task)


def _repeated(column: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([column] * len(schema), schema=schema)
