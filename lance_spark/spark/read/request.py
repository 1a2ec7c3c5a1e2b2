"""Requests of Spark's planner to a scan: the JSON of LanceScan.java, and its application to the plan from the options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from lance_spark.predicate import Predicate, conjunction, from_json
from lance_spark.predicate.from_json import column_from_json
from lance_spark.predicate.tree import Literal
from lance_spark.schema.schema import Schema
from lance_spark.spark.aggregation import expression, partial
from lance_spark.spark.aggregation.partial import Aggregation
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.scan.top_n import SortKey


@dataclass(frozen=True)
class Request:
    """The request for one scan: conditions that all must hold, and either `limit` rows per task (the first ones by `top`) or
    `aggregates` of the rows with equal `keys`.

    `rows_only`: only the number of rows matters, not their values. `parallelism` is the number of concurrent tasks. `reports`: tasks
    report what they have read. `results` asks for the rows of a search, of the `schema` (Spark's JSON): they are what its tasks have
    returned, in base 64, each time that tasks were run (see `planner.search`). `join` asks for the steps of a nearest join with the rows,
    of whose columns it needs those of `schema` (see `planner.nearest`). `changes_rows`: DELETE, UPDATE or MERGE reads the rows, which must
    be those of the table. `columnar` is the schema of the rows, as Spark's JSON, if tasks hand over lists of the values of their columns
    (see `columnar.column_lists`). Columns and conditions have the form of `predicate.from_json`.
    """

    filter: Sequence[Any] = ()
    limit: int | None = None
    top: Sequence[tuple[Any, bool, bool]] = ()
    aggregates: Sequence[Sequence[Any]] = ()
    keys: Sequence[Any] = ()
    rows_only: bool = False
    parallelism: int | None = None
    reports: bool = False
    results: Sequence[Sequence[str]] | None = None
    schema: str | None = None
    changes_rows: bool = False
    join: Mapping[str, Any] | None = None
    columnar: str | None = None

    def apply(self, plan: ScanPlan, schema: Schema) -> ScanPlan:
        """Add the request to a plan. `schema` contains all columns of the table."""
        conditions: list[Predicate] = [] if plan.predicate is None else [plan.predicate]
        pushed = [from_json(tree, schema) for tree in self.filter]
        conditions += [p for p in pushed if p.root != Literal(True, pa.bool_())]
        plan = replace(
            plan,
            predicate=conjunction(conditions) if conditions else None,
            task_limit=self.limit,
            order=tuple(SortKey(column_from_json(c, schema), ascending, nulls_first) for c, ascending, nulls_first in self.top),
        )
        if self.is_aggregated:
            aggregation = self.aggregation(schema, pa.schema([]))
            return replace(_only(plan, [column.quoted for column in aggregation.columns()]), counts_rows=aggregation.counts_rows)
        if self.rows_only:
            return _only(plan, () if plan.predicate is None else plan.predicate.columns)
        return plan

    @property
    def needs(self) -> list[str]:
        """The abilities that a read needs for it, see `read.kind`."""
        asked = {
            "filter": bool(self.filter),
            "limit": self.limit is not None,
            "top": bool(self.top),
            "aggregates": self.is_aggregated,
            "join": self.join is not None,
            "found": self.results is not None,
        }
        return [ability for ability, is_asked in asked.items() if is_asked]

    @property
    def is_aggregated(self) -> bool:
        """Whether tasks return aggregates instead of rows."""
        return bool(self.aggregates or self.keys)

    def aggregation(self, schema: Schema, result: pa.Schema) -> Aggregation:
        """The requested aggregates. `schema` contains all columns of the table; `result` has the keys, then the aggregates."""
        keys = tuple(column_from_json(key, schema) for key in self.keys)
        arguments = [expression.from_json(a[1], schema) if len(a) > 1 else None for a in self.aggregates]
        return Aggregation(keys, tuple(partial.Aggregate(a[0], argument) for a, argument in zip(self.aggregates, arguments)), result)


def _only(plan: ScanPlan, columns: Sequence[str]) -> ScanPlan:
    return replace(plan, columns=tuple(columns), with_row_id=False, with_row_address=False)
