"""The columns that the planner adds to a read: the results of text functions such as lance_match (TextColumns.java)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.predicate import Predicate, evaluate
from lance_spark.predicate.from_json import text_result
from lance_spark.table.scan.indexed import with_tests
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.versions.snapshot import Snapshot


@dataclass(frozen=True)
class TextColumns:
    """The conditions whose results are added, by the name of the column. They know how the texts are split into words."""

    conditions: Mapping[str, Predicate]

    @classmethod
    def of(cls, schema: StructType, shape: Snapshot, table_for: Callable[[str], Snapshot]) -> TextColumns:
        """Those of the columns in `schema`, of a version that is read; `shape` and `table_for` are those of `spark.read.opened.Opened`.

        Raises UnsupportedFeatureError for a partitioned namespace, whose tables may split texts in different ways.
        """
        known = shape.manifest.schema
        own = set(known.names)
        found = {f.name: text_result(f.name, known) for f in schema.fields if f.name not in own}
        conditions = {name: condition for name, condition in found.items() if condition is not None}
        if not conditions:
            return cls({})
        how = "use it in WHERE, under OR and NOT without functions of Spark beside it, or query the tables"
        table = table_for(f", where a condition like {next(iter(conditions))} can only select rows: {how}")
        return cls({name: with_tests(table, condition) for name, condition in conditions.items()})

    def rest(self, schema: StructType) -> StructType:
        """The other columns of a schema."""
        return StructType([f for f in schema.fields if f.name not in self.conditions]) if self.conditions else schema

    def read_by(self, plan: ScanPlan) -> ScanPlan:
        """A plan that reads the texts, too."""
        if plan.columns is None or not self.conditions:
            return plan
        texts = [path for condition in self.conditions.values() for path in condition.columns]
        return replace(plan, columns=tuple(dict.fromkeys((*plan.columns, *texts))))

    def added_to(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch with the results for its texts."""
        for name, condition in self.conditions.items():
            batch = batch.append_column(name, evaluate(condition, batch))
        return batch
