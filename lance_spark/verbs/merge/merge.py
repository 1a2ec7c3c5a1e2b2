"""MERGE: pairs of rows of the table and of a source decide which rows are updated, deleted and inserted, in one commit.

If the source is small, and our own formulas can evaluate the condition and all clauses, tasks find the rows that match it and change them
(see `table.changes.merge.rows`). Else Spark joins the table with the source (see `join`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial

import pyarrow as pa

from lance_spark.errors import AmbiguousMergeError
from lance_spark.table.changes.delta import DeltaPart, DeltaTarget
from lance_spark.table.changes.merge.pairing import ByCondition
from lance_spark.table.changes.merge.rows import MergeRows, ambiguous_row, merge_in_tasks, plan_merge, table_bytes
from lance_spark.table.changes.row_changes import DeltaPlan, RowChanges, RowPlan, change_rows
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.options import WriteOptions
from lance_spark.verbs.collect import collected
from lance_spark.verbs.job import OnExecutors, in_zone, nearby
from lance_spark.verbs.merge.clauses import Merge, key_columns, key_of
from lance_spark.verbs.merge.join import plan_join
from lance_spark.verbs.merge.pairs import OwnMerge, own_merge

_UNNAMED = "__lance_target"

_HERE_BYTES = 256 << 20
"""Tables with at most so many bytes are merged on the driver if the scan for matching rows is small: any of them may change."""


def merge(merge: Merge, options: WriteOptions) -> RowChanges:
    """Run the merge. Raises AmbiguousMergeError, which names the row, if two rows of the source change the same row of the table."""
    merge.check()
    if merge.target.alias is None:
        # Columns of the table and of the source must be distinguishable.
        merge = replace(merge, target=replace(merge.target, alias=_UNNAMED))
    current = merge.target.current()
    if not isinstance(current, Snapshot):
        from lance_spark.verbs.merge.partitioned import merge_partitioned

        return merge_partitioned(merge, current, options)
    with ExitStack() as stack:
        return change_rows(current, options, partial(_plan, merge, stack, cache(partial(collected, merge.source))))


def _plan(merge: Merge, stack: ExitStack, source: Callable[[tuple[str, ...]], pa.RecordBatch | None], snapshot: Snapshot) -> RowPlan:
    """The plan for a version. `source` returns columns of the source. What the plan needs until it has run is released by `stack`."""
    own = own_merge(merge, snapshot)
    if own is not None and (rows := source(own.source)) is not None:
        return _plan_in_tasks(merge, own, rows, snapshot)
    return plan_join(merge, stack, snapshot)


def _plan_in_tasks(merge: Merge, own: OwnMerge, source: pa.RecordBatch, snapshot: Snapshot) -> RowPlan:
    """The plan for a source that is in memory: tasks find and change the rows that match it."""
    spark, cores, rows = merge.target.spark, merge.target.cores(), MergeRows(ByCondition(source, own.on), own.clauses)

    def parts(delta: DeltaTarget) -> list[DeltaPart]:
        runner = nearby(spark, cores) if table_bytes(snapshot) <= _HERE_BYTES else OnExecutors(spark, cores)
        try:
            return merge_in_tasks(rows, snapshot, in_zone(spark, delta), runner, plan_merge(rows, snapshot, cores))
        except AmbiguousMergeError as e:
            raise ambiguous_row(e.address, snapshot, key_columns(merge, snapshot.manifest.schema)) from e

    key = key_of(merge, snapshot.manifest.schema)
    plan = DeltaPlan(
        snapshot,
        parts,
        assigned=own.updated,
        key=key,
        repeats=merge.may_repeat_deletes,
    )
    return RowPlan(plan.write)
