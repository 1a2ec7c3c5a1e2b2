"""DELETE and UPDATE of a partitioned namespace: Spark finds the rows, the executors write them,
and the driver commits once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lance_spark.namespace.partitioned.changes import ChangeTarget, begin_changes, write_changes
from lance_spark.namespace.partitioned.commit import commit_changes
from lance_spark.namespace.partitioned.root import PartitionedVersion
from lance_spark.namespace.partitioned.row_verbs import changed
from lance_spark.table.changes.delta import DELETED, OPERATION, UPDATED
from lance_spark.table.changes.row_changes import RowChanges
from lance_spark.table.write.options import WriteOptions
from lance_spark.verbs.assignment import assignments
from lance_spark.verbs.condition import Condition, as_column, check_deterministic
from lance_spark.verbs.job import on_partitions
from lance_spark.verbs.target import Target


def delete(target: Target, version: PartitionedVersion, condition: Condition | None, options: WriteOptions) -> RowChanges:
    """Delete the rows for which `condition` is true, or all rows."""

    def plan(latest: PartitionedVersion) -> RowChanges:
        rows = _where(target, latest, condition).select(F.lit(DELETED).alias(OPERATION), target.address)
        return written(target, rows, begin_changes(latest, (), options), options)

    return changed(version, options, plan)


def update(
    target: Target,
    version: PartitionedVersion,
    condition: Condition | None,
    values: Mapping[str, Condition],
    options: WriteOptions,
) -> RowChanges:
    """Set columns to new values in the rows for which `condition` is true, or in all rows."""

    def plan(latest: PartitionedVersion) -> RowChanges:
        chosen = _where(target, latest, condition)
        new = assignments(chosen, latest.shape.manifest.schema, values, target.alias)
        columns = [value.alias(name) for name, value in new.items()]
        rows = chosen.select(F.lit(UPDATED).alias(OPERATION), target.address, *columns)
        return written(target, rows, begin_changes(latest, tuple(new), options), options)

    return changed(version, options, plan)


def _where(target: Target, version: PartitionedVersion, condition: Condition | None) -> DataFrame:
    rows = target.rows(version)
    check_deterministic(rows, [condition])
    return rows if condition is None else rows.where(as_column(condition))


def written(
    target: Target,
    rows: DataFrame,
    delta: ChangeTarget,
    options: WriteOptions,
    *,
    has_keys: bool = False,
) -> RowChanges:
    """Write delta rows on the executors, and commit them."""
    rules = delta.write.rules.in_zone(target.spark.conf.get("spark.sql.session.timeZone") or "UTC")
    delta = replace(delta, write=replace(delta.write, rules=rules))
    parts = on_partitions(rows, partial(write_changes, delta))
    return commit_changes(delta, parts, options.noted, has_keys=has_keys)
