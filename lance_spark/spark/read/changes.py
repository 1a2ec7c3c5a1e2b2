"""Reading the changes of a table, or of a partitioned namespace. As with a search, Spark pushes nothing but columns down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from lance_spark.spark.columns.batches import Conversion
from lance_spark.spark.columns.types import promised
from lance_spark.spark.options.read import ReadOptions
from lance_spark.spark.read.kind import COLUMNS_ONLY, plan_of, selected, shown
from lance_spark.spark.read.opened import Opened, OpenedNamespace
from lance_spark.spark.read.reader import LanceReader, Parts, Returned, Task
from lance_spark.spark.read.request import Request
from lance_spark.spark.read.text_columns import TextColumns
from lance_spark.table.feed.changes import CHANGE_COLUMNS, Changes
from lance_spark.table.feed.request import begin_of, feed
from lance_spark.table.feed.task import changes_tasks
from lance_spark.table.scan.plan import ScanPlan

if TYPE_CHECKING:
    from lance_spark.namespace.partitioned.feed import PartitionedChanges

ADDED = tuple(f.name for f in CHANGE_COLUMNS)
"""The columns that changes have besides those of the table."""


@dataclass(frozen=True)
class ChangesRead:
    """The changes that the options ask for."""

    opened: Opened
    options: ReadOptions
    kind = "a change feed"
    abilities = COLUMNS_ONLY

    def columns(self) -> pa.Schema:
        # Where the changes begin does not matter here, and a stream need not say it.
        return shown(self.changes(self.opened.shape.version).fields)

    def reader(self, schema: StructType, request: Request) -> DataSourceReader:
        snapshot = self.opened.shape
        found = self.changes(begin_of(self.opened.numbered, self.options.feed))
        texts = TextColumns.of(schema, snapshot, self.opened.table_for)
        wanted = texts.rest(schema)
        plan = selected(found.plan, snapshot, shown(found.fields), ADDED, wanted)
        tasks = self._tasks(texts.read_by(plan), found)
        conversion = Conversion(promised(schema), self.options.truncates)
        parts = Parts(lambda cores, most: tasks, request.rows_only)
        return LanceReader(parts, Returned(conversion, None, texts, request.reports))

    def changes(self, begin: int) -> Changes | PartitionedChanges:
        """The changes after the version `begin`."""
        plan, feed_options, filter = plan_of(self.opened, self.options), self.options.feed, self.options.filter
        if isinstance(self.opened, OpenedNamespace):
            from lance_spark.namespace.partitioned.feed import changes

            return changes(self.opened.version, begin, plan, filter, net=feed_options.net, updates=feed_options.updates)
        return feed(self.opened.table_for(""), plan, filter, begin, feed_options)

    def _tasks(self, plan: ScanPlan, found: Changes | PartitionedChanges) -> Sequence[Task]:
        """The tasks that read the changes in the columns of `plan`."""
        if isinstance(found, Changes):
            return changes_tasks(replace(found, plan=plan))
        from lance_spark.namespace.partitioned.feed import changes_tasks as partitioned_tasks

        return partitioned_tasks(replace(found, plan=plan))
