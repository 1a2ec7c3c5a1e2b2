"""Reading a table for Spark: the driver cuts the scan into tasks, an executor reads one and hands Arrow batches over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from lance_spark.spark.batches import Conversion
from lance_spark.spark.import_cache import keep_import_cache_small
from lance_spark.table.scan import ScanPlan, ScanTask, plan_tasks, read_task
from lance_spark.table.snapshot import Snapshot

_TASKS_PER_CORE = 3


class LancePartition(InputPartition):
    """One task of a scan, with everything that reading it needs: Spark may pair it with the reader of another plan of the same query."""

    def __init__(self, task: ScanTask) -> None:
        super().__init__(None)
        self.task = task


class LanceReader(DataSourceReader):
    """The reader of one plan over one snapshot. What is pickled for the executors is the promised schema alone."""

    def __init__(self, snapshot: Snapshot, plan: ScanPlan, conversion: Conversion) -> None:
        self._snapshot = snapshot
        self._plan = plan
        self._conversion = conversion

    def partitions(self) -> list[InputPartition]:
        """The tasks of the scan; none for a table without rows, which Spark takes as one that is not ours."""
        # The cluster's size cannot be seen from here, where Spark plans; the driver's is the nearest to it.
        parallelism = _TASKS_PER_CORE * (os.cpu_count() or 1)
        return [LancePartition(task) for task in plan_tasks(self._snapshot, self._plan, parallelism)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The batches of one task, in exactly the promised schema."""
        keep_import_cache_small()
        if isinstance(partition, LancePartition):
            for batch in read_task(partition.task):
                yield self._conversion.apply(batch)

    def __getstate__(self) -> dict[str, Any]:
        return {"_conversion": self._conversion}
