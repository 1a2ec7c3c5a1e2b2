"""UPDATE: the rows that fulfil a condition move to new fragments with new values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pyspark.sql import functions as F

from lance_spark.errors import SchemaMismatchError
from lance_spark.table.changes.delta import OPERATION, UPDATED, DeltaPart, DeltaTarget, Intent
from lance_spark.table.changes.row_tasks import change_rows as run_row_task
from lance_spark.table.changes.row_tasks import plan_rows
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.write import WriteOptions
from lance_spark.verbs.assignment import assigned_ids, assignments, fits_formulas
from lance_spark.verbs.condition import Condition, as_column, own_formulas, own_predicate
from lance_spark.verbs.job import RowChanges, RowPlan, change_rows, run_tasks, write_delta
from lance_spark.verbs.target import Target


def update(target: Target, condition: Condition | None, values: Mapping[str, Condition], options: WriteOptions) -> RowChanges:
    """Give columns new values in the rows for which `condition` is true, or in all rows without one."""
    if not values:
        raise ValueError("an update needs new values: set={column: value}")
    return change_rows(target.latest(), options, partial(_plan, target, condition, values))


def _plan(target: Target, condition: Condition | None, values: Mapping[str, Condition], snapshot: Snapshot) -> RowPlan:
    predicate = own_predicate(target.spark, condition, snapshot, target.alias)
    formulas = own_formulas(target.spark, values, snapshot, target.alias) if condition is None or predicate is not None else None
    if formulas is not None and fits_formulas(snapshot, formulas):
        names = tuple(formulas)

        def write(delta: DeltaTarget) -> list[DeltaPart]:
            return run_tasks(target.spark, plan_rows(snapshot, delta, predicate, formulas, target.cores()), run_row_task)
    else:
        df = target.rows(snapshot)
        chosen = df if condition is None else df.where(as_column(condition))
        new = assignments(chosen, snapshot.manifest.schema, values, target.alias)
        names = tuple(new)
        if not names:
            raise SchemaMismatchError("the update assigns no column")
        rows = chosen.select(F.lit(UPDATED).alias(OPERATION), target.address, *(value.alias(name) for name, value in new.items()))

        def write(delta: DeltaTarget) -> list[DeltaPart]:
            return write_delta(rows, delta)

    return RowPlan(write, Intent(assigned=assigned_ids(snapshot.manifest.schema, names)), names)
