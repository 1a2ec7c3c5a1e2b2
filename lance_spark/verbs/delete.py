"""DELETE: the rows that satisfy a condition are deleted from their fragments; no data file is written."""

from __future__ import annotations

from functools import partial

from pyspark.sql import functions as F

from lance_spark.table.changes.delta import DELETED, OPERATION, DeltaPart, DeltaTarget, Intent
from lance_spark.table.changes.row_changes import DeltaPlan, RowChanges, RowPlan, change_rows
from lance_spark.table.changes.row_tasks import plan_rows, run_row_task
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.options import WriteOptions
from lance_spark.verbs.condition import Condition, as_column, check_deterministic, own_predicate
from lance_spark.verbs.job import nearby, write_delta
from lance_spark.verbs.target import Target


def delete(target: Target, condition: Condition | None, options: WriteOptions) -> RowChanges:
    """Delete the rows for which `condition` is true, or all rows."""
    current = target.current()
    if not isinstance(current, Snapshot):
        from lance_spark.verbs import partitioned

        return partitioned.delete(target, current, condition, options)
    return change_rows(current, options, partial(_plan, target, condition))


def _plan(target: Target, condition: Condition | None, snapshot: Snapshot) -> RowPlan:
    predicate = own_predicate(target.spark, condition, snapshot, target.alias)
    if condition is None or predicate is not None:

        def parts(delta: DeltaTarget) -> list[DeltaPart]:
            runner = nearby(target.spark, target.cores())
            return runner.run(plan_rows(snapshot, delta, predicate, cores=runner.cores), run_row_task)
    else:
        df = target.rows(snapshot)
        check_deterministic(df, [condition])
        rows = df.where(as_column(condition)).select(F.lit(DELETED).alias(OPERATION), target.address)

        def parts(delta: DeltaTarget) -> list[DeltaPart]:
            return write_delta(rows, delta)

    text = "true" if condition is None else str(condition)
    return RowPlan(DeltaPlan(snapshot, parts, Intent(predicate=text)).write, adds_rows=False)
