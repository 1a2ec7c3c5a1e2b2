"""OPTIMIZE: tasks on the executors compact fragments."""

from __future__ import annotations

from lance_spark.table.changes.compaction import CompactionOptions
from lance_spark.table.changes.optimize import CompactionMetrics, optimize
from lance_spark.table.changes.update import rows_by_fragment
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.write import WriteOptions
from lance_spark.verbs.condition import Condition, as_column, check_deterministic, own_predicate
from lance_spark.verbs.job import OnExecutors
from lance_spark.verbs.target import Target


def compact(
    target: Target, condition: Condition | None, options: CompactionOptions, write: WriteOptions, progress: bool | None
) -> CompactionMetrics:
    """Compact the fragments with a row for which `condition` is true, or all fragments."""
    snapshot = target.latest()
    chosen = None if condition is None else _chosen(target, condition, snapshot)
    return optimize(OnExecutors(target.spark, target.cores()), snapshot, chosen, options, write, progress)


def _chosen(target: Target, condition: Condition, snapshot: Snapshot) -> frozenset[int]:
    predicate = own_predicate(target.spark, condition, snapshot, target.alias)
    if predicate is not None:
        return frozenset(rows_by_fragment(OnExecutors(target.spark, target.cores()), snapshot, predicate))
    check_deterministic(target.rows(snapshot), [condition])
    rows = target.rows(snapshot).where(as_column(condition))
    return frozenset(row[0] for row in rows.selectExpr(f"shiftright({target.address}, 32)").distinct().collect())
