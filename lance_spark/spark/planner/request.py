"""Requests of Spark's planner to a scan: the JSON of LancePlanner.java, and its application to the plan from the options."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from lance_spark.predicate import Predicate, conjunction, from_json
from lance_spark.predicate.from_json import column_from_json
from lance_spark.schema.schema import Schema
from lance_spark.table.scan.aggregate import Aggregate
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.scan.top_n import SortKey


@dataclass(frozen=True)
class Request:
    """The request for one scan: conditions that all must hold, and either `limit` rows per task (the first ones by `top`) or aggregates.

    `rows_only`: only the number of rows matters, not their values. `parallelism` is the number of concurrent tasks. `declared` is the
    schema of the table in the session catalog, as Spark's JSON; a declared table without data has no rows. Columns and conditions have
    the form of `predicate.from_json`.
    """

    filter: Sequence[Any] = ()
    limit: int | None = None
    top: Sequence[tuple[Any, bool, bool]] = ()
    aggregates: Sequence[Sequence[Any]] = ()
    rows_only: bool = False
    parallelism: int | None = None
    declared: str | None = None

    @classmethod
    def parse(cls, text: str) -> Request:
        """Parse the planner's JSON."""
        return cls(**json.loads(text))

    def apply(self, plan: ScanPlan, schema: Schema) -> ScanPlan:
        """Add the request to a plan. `schema` contains all columns of the table."""
        conditions: list[Predicate] = [] if plan.predicate is None else [plan.predicate]
        conditions += [from_json(tree, schema) for tree in self.filter]
        if plan.limit is not None and (self.filter or self.limit is not None or self.aggregates):
            raise ValueError("Spark's planner must not push a filter, limit or aggregate into a scan with the option limit")
        plan = replace(
            plan,
            predicate=conjunction(conditions) if conditions else None,
            task_limit=self.limit,
            order=tuple(SortKey(column_from_json(c, schema), ascending, nulls_first) for c, ascending, nulls_first in self.top),
            aggregates=tuple(_aggregate(a, schema) for a in self.aggregates),
        )
        if self.aggregates:
            return _only(plan, [a.column.quoted for a in plan.aggregates if a.column is not None])
        if self.rows_only:
            return _only(plan, () if plan.predicate is None else plan.predicate.columns)
        return plan


def _only(plan: ScanPlan, columns: Sequence[str]) -> ScanPlan:
    return replace(plan, columns=tuple(columns), with_row_id=False, with_row_address=False)


def _aggregate(tree: Sequence[Any], schema: Schema) -> Aggregate:
    function: Literal["count", "min", "max"] = tree[0]
    return Aggregate(function, None if len(tree) == 1 else column_from_json(tree[1], schema))
