"""What Spark's planner asks of a scan: the JSON of LancePlanner.java, and the plan that it makes of the one the options give."""

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
    """What is asked of one scan: conditions that all must hold, `limit` rows of each task (the first in the order `top`), or aggregates.

    `rows_only`: the values of the columns do not matter, only how many rows there are. `parallelism` is how many tasks run at once.
    `declared` is the schema, as Spark's JSON, that the session catalog has for the table, which without data is a table without rows.
    Columns and conditions are in the form of `predicate.from_json`.
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
        """From the planner's JSON."""
        return cls(**json.loads(text))

    def apply(self, plan: ScanPlan, schema: Schema) -> ScanPlan:
        """The plan with everything that is asked; `schema` is all that the table has."""
        conditions: list[Predicate] = [] if plan.predicate is None else [plan.predicate]
        conditions += [from_json(tree, schema) for tree in self.filter]
        if plan.limit is not None and (self.filter or self.limit is not None or self.aggregates):
            raise ValueError("Spark's planner must not ask this of a scan that has a limit of its own")
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
