"""Reading the rows of a table."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

from lance_spark.metadata.row_columns import ROW_COLUMNS
from lance_spark.spark.columns.batches import Conversion
from lance_spark.spark.columns.types import promised, to_spark
from lance_spark.spark.options.read import ReadOptions
from lance_spark.spark.read.kind import COLUMNS_ONLY, Abilities, check_ids, only, plan_of, shown
from lance_spark.spark.read.opened import Opened
from lance_spark.spark.read.reader import LanceReader, Parts, Returned
from lance_spark.spark.read.request import Request
from lance_spark.spark.read.text_columns import TextColumns
from lance_spark.table.scan.plan import ScanPlan


@dataclass(frozen=True)
class RowsRead:
    """The rows that the options choose by a condition, or so many of them."""

    opened: Opened
    options: ReadOptions
    kind = "a scan"

    @property
    def abilities(self) -> Abilities:
        # What Spark pushes down would come before the limit of the options.
        if self.options.limit is not None:
            return COLUMNS_ONLY
        has_log = self.opened.has_log
        return Abilities(
            filter=True,
            limit=True,
            exact_limit=not has_log,
            top=True,
            aggregates=True,
            count=not has_log,
            is_filtered=self.options.filter is not None,
            has_log=has_log,
            unjoined=self._unjoined(),
        )

    def _unjoined(self) -> str:
        if self.opened.shape.version == 0:
            return "the table has no version yet"
        if self.opened.has_log:
            return "rows of the table are in its write-ahead log; merge them, or leave them out by mem_wal=base"
        return ""

    def columns(self) -> pa.Schema:
        snapshot = self.opened.shape
        return shown(plan_of(self.opened, self.options).checked(snapshot).fields(snapshot))

    def reader(self, schema: StructType, request: Request) -> DataSourceReader:
        plan, snapshot = plan_of(self.opened, self.options), self.opened.shape
        if request.join is not None:
            from lance_spark.spark.read.nearest import nearest_reader

            table = self.opened.table_for(", which cannot be joined by nearness")
            return nearest_reader(table, plan, self.options.joins, request)
        given, texts = promised(schema), TextColumns.of(schema, snapshot, self.opened.table_for)
        if not request.is_aggregated:
            plan = self._projected(plan, texts.rest(schema))
        plan = request.apply(texts.read_by(plan), plan.known(snapshot))
        aggregation = None
        if request.is_aggregated:
            aggregation = request.aggregation(plan.known(snapshot), given)
            given = promised(to_spark(shown(plan.fields(snapshot))))
        if not request.changes_rows:
            check_ids(snapshot, plan)
        keeps_codes = request.columnar is not None and aggregation is None and not texts.conditions
        plan = replace(plan, with_dictionaries=keeps_codes)
        parts = Parts(
            self.opened.tasks(plan, not request.changes_rows),
            request.rows_only,
            request.parallelism,
            self.options.max_partition_bytes,
            self.opened.num_fragments,
        )
        conversion = Conversion(given, self.options.truncates)
        return LanceReader(parts, Returned(conversion, aggregation, texts, request.reports))

    def _projected(self, plan: ScanPlan, schema: StructType) -> ScanPlan:
        """The plan for the columns of `schema`, to which row columns may have been added."""
        snapshot = self.opened.shape
        own = shown(plan.fields(snapshot))
        names = set(own.names)
        if any(f.name in schema.names and f.name not in names for f in ROW_COLUMNS):
            own = shown(plan.known(snapshot))
        if schema.names == own.names and schema == to_spark(own):
            return plan
        return only(plan, own, schema)
