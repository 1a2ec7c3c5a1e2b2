"""UPDATE: rows get new values. They move to new fragments, or the columns are rewritten in place, whichever writes fewer bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lance_spark.errors import SchemaMismatchError, check_type
from lance_spark.schema.schema import quoted
from lance_spark.table.changes.columns_in_place import InPlacePlan, is_cheaper, is_possible
from lance_spark.table.changes.delta import OPERATION, ROW_ADDRESS, UPDATED
from lance_spark.table.changes.row_changes import DeltaPlan, RowChanges, RowPlan, change_rows
from lance_spark.table.changes.update import live_rows, plan_update, rows_by_fragment
from lance_spark.table.scan.runner import Runner
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.options import WriteOptions
from lance_spark.verbs.add_columns import write_by_fragment, write_in_order
from lance_spark.verbs.assignment import assignments, checked, fits_formulas
from lance_spark.verbs.condition import Condition, as_column, check_deterministic, own_formulas, own_predicate
from lance_spark.verbs.job import nearby, write_delta
from lance_spark.verbs.target import Target


def update(target: Target, condition: Condition | None, values: Mapping[str, Condition], options: WriteOptions) -> RowChanges:
    """Set columns to new values in the rows for which `condition` is true, or in all rows."""
    check_type("set", values, Mapping, 'a mapping such as {"v": "v + 1"}')
    if not values:
        raise ValueError("an update needs new values: set={column: value}")
    current = target.current()
    if not isinstance(current, Snapshot):
        from lance_spark.verbs import partitioned

        return partitioned.update(target, current, condition, values, options)
    return change_rows(current, options, partial(_plan, target, condition, values))


def update_columns(target: Target, df: DataFrame, on: Sequence[str], options: WriteOptions) -> RowChanges:
    """Update rows from `df`, matched on the columns `on`; its other columns are rewritten in place."""
    return change_rows(target.latest(), options, partial(_plan_columns, target, df, on))


def _plan(target: Target, condition: Condition | None, values: Mapping[str, Condition], snapshot: Snapshot) -> RowPlan:
    predicate = own_predicate(target.spark, condition, snapshot, target.alias)
    formulas = own_formulas(target.spark, values, snapshot, target.alias) if condition is None or predicate is not None else None
    if formulas is not None and fits_formulas(snapshot, formulas):
        return plan_update(_runner(target), snapshot, predicate, formulas)
    df = target.rows(snapshot)
    check_deterministic(df, [condition])
    chosen = _where(df, condition)
    new = assignments(chosen, snapshot.manifest.schema, values, target.alias)
    names = tuple(new)
    columns = [value.alias(name) for name, value in new.items()]
    if (condition is None or predicate is not None) and is_possible(snapshot, names):
        matched = live_rows(snapshot) if predicate is None else rows_by_fragment(_runner(target), snapshot, predicate)
        if matched and is_cheaper(snapshot, names, matched):
            rows = _where(target.rows(snapshot, fragments=matched), condition).select(target.address, *columns)
            return RowPlan(InPlacePlan(snapshot, partial(write_in_order, rows), names).write)
    delta_rows = chosen.select(F.lit(UPDATED).alias(OPERATION), target.address, *columns)
    return RowPlan(DeltaPlan(snapshot, partial(write_delta, delta_rows), assigned=names).write)


def _plan_columns(target: Target, df: DataFrame, on: Sequence[str], snapshot: Snapshot) -> RowPlan:
    schema, keys = snapshot.manifest.schema, {name.lower() for name in on}
    found = {f.name.lower(): f.name for f in schema.fields}
    names = {name: found.get(name.lower()) for name in df.columns if name.lower() not in keys}
    if not names or None in names.values():
        unknown = [name for name, own in names.items() if own is None]
        raise SchemaMismatchError(
            f"the table has no column {', '.join(map(repr, unknown))}"
            if unknown
            else "the DataFrame has no column to update besides the ones to match on"
        )
    checked(df, schema, {str(own): df[quoted([name])] for name, own in names.items()})
    if not is_possible(snapshot, [str(own) for own in names.values()]):
        raise SchemaMismatchError(f"{snapshot}: these columns cannot be rewritten in place; use merge, which moves the rows")
    rows = target.rows(snapshot).select(*dict.fromkeys([*(quoted([name]) for name in on), ROW_ADDRESS]))
    matched = rows.join(df, list(on), "inner").select(ROW_ADDRESS, *(F.col(quoted([name])).alias(str(own)) for name, own in names.items()))
    return RowPlan(InPlacePlan(snapshot, partial(write_by_fragment, matched), tuple(str(own) for own in names.values())).write)


def _where(df: DataFrame, condition: Condition | None) -> DataFrame:
    return df if condition is None else df.where(as_column(condition))


def _runner(target: Target) -> Runner:
    return nearby(target.spark, target.cores())
