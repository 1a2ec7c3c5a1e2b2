"""UPDATE: rows get new values. They move to new fragments, or the columns are rewritten in place, whichever writes fewer bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lance_spark.errors import SchemaMismatchError, check_type
from lance_spark.predicate import Predicate
from lance_spark.schema.schema import Schema, quoted
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


def _plan(
    target: Target,
    condition: Condition | None,
    values: Mapping[str, Condition],
    snapshot: Snapshot,
) -> RowPlan:
    """The plan for a version. Spark evaluates the values if our own tasks cannot."""
    predicate = own_predicate(target.spark, condition, snapshot, target.alias)
    finds_rows = condition is None or predicate is not None  # our own tasks do
    if finds_rows:
        formulas = own_formulas(target.spark, values, snapshot, target.alias)
        if formulas is not None and fits_formulas(snapshot, formulas):
            return plan_update(_runner(target), snapshot, predicate, formulas)
    df = target.rows(snapshot)
    check_deterministic(df, [condition])
    chosen = _where(df, condition)
    new = assignments(chosen, snapshot.manifest.schema, values, target.alias)
    names = tuple(new)
    columns = [value.alias(name) for name, value in new.items()]
    if finds_rows and is_possible(snapshot, names):
        matched = _matched(target, snapshot, predicate)
        if matched and is_cheaper(snapshot, names, matched):
            rows = _where(target.rows(snapshot, fragments=matched), condition)
            written = partial(write_in_order, rows.select(target.address, *columns))
            return RowPlan(InPlacePlan(snapshot, written, names).write)
    delta_rows = chosen.select(F.lit(UPDATED).alias(OPERATION), target.address, *columns)
    written_delta = partial(write_delta, delta_rows)
    return RowPlan(DeltaPlan(snapshot, written_delta, assigned=names).write)


def _matched(target: Target, snapshot: Snapshot, predicate: Predicate | None) -> dict[int, int]:
    """How many rows each fragment has that satisfy the predicate (None: all)."""
    if predicate is None:
        return live_rows(snapshot)
    return rows_by_fragment(_runner(target), snapshot, predicate)


def _plan_columns(target: Target, df: DataFrame, on: Sequence[str], snapshot: Snapshot) -> RowPlan:
    """The plan for a version: the values come from `df`, one for each row that it matches."""
    schema = snapshot.manifest.schema
    own = _own_names(schema, df, on)
    checked(df, schema, {own[name]: df[quoted([name])] for name in own})
    written = tuple(own.values())
    if not is_possible(snapshot, written):
        what = "these columns cannot be rewritten in place; use merge, which moves the rows"
        raise SchemaMismatchError(f"{snapshot}: {what}")
    keys = [quoted([name]) for name in on]
    rows = target.rows(snapshot).select(*dict.fromkeys([*keys, ROW_ADDRESS]))
    values = [F.col(quoted([name])).alias(own[name]) for name in own]
    matched = rows.join(df, list(on), "inner").select(ROW_ADDRESS, *values)
    return RowPlan(InPlacePlan(snapshot, partial(write_by_fragment, matched), written).write)


def _own_names(schema: Schema, df: DataFrame, on: Sequence[str]) -> dict[str, str]:
    """The table's names of the columns of `df` but the keys `on`. Raises SchemaMismatchError."""
    keys = {name.lower() for name in on}
    known = {f.name.lower(): f.name for f in schema.fields}
    given = [name for name in df.columns if name.lower() not in keys]
    if not given:
        what = "the DataFrame has no column to update besides the ones to match on"
        raise SchemaMismatchError(what)
    unknown = [name for name in given if name.lower() not in known]
    if unknown:
        raise SchemaMismatchError(f"the table has no column {', '.join(map(repr, unknown))}")
    return {name: known[name.lower()] for name in given}


def _where(df: DataFrame, condition: Condition | None) -> DataFrame:
    return df if condition is None else df.where(as_column(condition))


def _runner(target: Target) -> Runner:
    return nearby(target.spark, target.cores())
