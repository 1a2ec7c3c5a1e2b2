"""UPDATE: rows get new values. They move to new fragments, or stay while their columns are written anew, whichever takes fewer bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lance_spark.errors import SchemaMismatchError
from lance_spark.predicate import Formula, Predicate
from lance_spark.table.changes.column_files import ColumnFile, ColumnTarget
from lance_spark.table.changes.columns_in_place import InPlacePlan, is_cheaper, is_possible
from lance_spark.table.changes.delta import OPERATION, ROW_ADDRESS, UPDATED, DeltaPart, DeltaTarget, Intent
from lance_spark.table.changes.new_columns import Formulas, add_columns_of, plan_columns
from lance_spark.table.changes.row_changes import DeltaPlan, RowChanges, RowPlan, change_rows
from lance_spark.table.changes.row_tasks import matched_rows, plan_rows, run_row_task
from lance_spark.table.scan.plan import ScanPlan, all_live_rows, plan_tasks
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.write import WriteOptions
from lance_spark.verbs.add_columns import write_by_fragment
from lance_spark.verbs.assignment import assigned_ids, assignments, checked, fits_formulas
from lance_spark.verbs.condition import Condition, as_column, own_formulas, own_predicate
from lance_spark.verbs.job import run_tasks, write_delta
from lance_spark.verbs.target import Target


def update(target: Target, condition: Condition | None, values: Mapping[str, Condition], options: WriteOptions) -> RowChanges:
    """Give columns new values in the rows for which `condition` is true, or in all rows without one."""
    if not values:
        raise ValueError("an update needs new values: set={column: value}")
    return change_rows(target.latest(), options, partial(_plan, target, condition, values))


def update_columns(target: Target, df: DataFrame, on: Sequence[str], options: WriteOptions) -> RowChanges:
    """Give the other columns of `df` to the rows whose columns `on` are equal; these columns are written anew in place."""
    return change_rows(target.latest(), options, partial(_plan_columns, target, df, on))


def _plan(target: Target, condition: Condition | None, values: Mapping[str, Condition], snapshot: Snapshot) -> RowPlan:
    predicate = own_predicate(target.spark, condition, snapshot, target.alias)
    formulas = own_formulas(target.spark, values, snapshot, target.alias) if condition is None or predicate is not None else None
    if formulas is not None and fits_formulas(snapshot, formulas):
        return _by_formulas(target, predicate, formulas, snapshot)
    df = target.rows(snapshot)
    chosen = df if condition is None else df.where(as_column(condition))
    new = assignments(chosen, snapshot.manifest.schema, values, target.alias)
    names = tuple(new)
    columns = [value.alias(name) for name, value in new.items()]
    if condition is None and _in_place(snapshot, names, _live_rows(snapshot)):
        rows = chosen.select(target.address, *columns)
        return RowPlan(InPlacePlan(snapshot, partial(write_by_fragment, rows), names).write)
    delta_rows = chosen.select(F.lit(UPDATED).alias(OPERATION), target.address, *columns)
    intent = Intent(assigned=assigned_ids(snapshot.manifest.schema, names))
    return RowPlan(DeltaPlan(snapshot, partial(write_delta, delta_rows), intent, names).write)


def _by_formulas(target: Target, predicate: Predicate | None, formulas: Mapping[str, Formula], snapshot: Snapshot) -> RowPlan:
    fields = {f.name.lower(): f.name for f in snapshot.manifest.schema.fields}
    by_name = {fields[name.lower()]: formula for name, formula in formulas.items()}
    names = tuple(by_name)
    if is_possible(snapshot, names):
        matched = _live_rows(snapshot) if predicate is None else _matched(target, predicate, snapshot)
        if is_cheaper(snapshot, names, matched):
            compute = Formulas(by_name)

            def files(columns: ColumnTarget) -> list[ColumnFile]:
                tasks = plan_columns(snapshot, columns, compute.columns, matched, predicate)
                return [file for some in run_tasks(target.spark, tasks, partial(add_columns_of, compute=compute)) for file in some]

            return RowPlan(InPlacePlan(snapshot, files, names).write)

    def parts(delta: DeltaTarget) -> list[DeltaPart]:
        return run_tasks(target.spark, plan_rows(snapshot, delta, predicate, by_name, target.cores()), run_row_task)

    intent = Intent(assigned=assigned_ids(snapshot.manifest.schema, names))
    return RowPlan(DeltaPlan(snapshot, parts, intent, names).write)


def _plan_columns(target: Target, df: DataFrame, on: Sequence[str], snapshot: Snapshot) -> RowPlan:
    schema, keys = snapshot.manifest.schema, {name.lower() for name in on}
    found = {f.name.lower(): f.name for f in schema.fields}
    names = {name: found.get(name.lower()) for name in df.columns if name.lower() not in keys}
    if not names or None in names.values():
        unknown = [name for name, own in names.items() if own is None]
        raise SchemaMismatchError(f"the table has no column {', '.join(map(repr, unknown))}" if unknown else "there is no column to update")
    checked(df, schema, {str(own): df[f"`{name}`"] for name, own in names.items()})
    if not is_possible(snapshot, [str(own) for own in names.values()]):
        raise SchemaMismatchError(f"{snapshot}: these columns cannot be written in place; use merge, which moves the rows")
    rows = target.rows(snapshot).select(*dict.fromkeys([*(f"`{name}`" for name in on), ROW_ADDRESS]))
    matched = rows.join(df, list(on), "inner").select(ROW_ADDRESS, *(F.col(f"`{name}`").alias(str(own)) for name, own in names.items()))
    return RowPlan(InPlacePlan(snapshot, partial(write_by_fragment, matched), tuple(str(own) for own in names.values())).write)


def _in_place(snapshot: Snapshot, names: Sequence[str], matched: Mapping[int, int]) -> bool:
    return is_possible(snapshot, names) and is_cheaper(snapshot, names, matched)


def _live_rows(snapshot: Snapshot) -> dict[int, int]:
    return {f.id: rows for f, rows in zip(snapshot.manifest.fragments, all_live_rows(snapshot)) if rows}


def _matched(target: Target, predicate: Predicate, snapshot: Snapshot) -> dict[int, int]:
    """How many rows of each fragment fulfil the predicate."""
    found: dict[int, int] = {}
    tasks = plan_tasks(snapshot, ScanPlan(columns=(ROW_ADDRESS,), predicate=predicate), target.cores())
    for counts in run_tasks(target.spark, [task for task in tasks if task.parts], matched_rows):
        for fragment_id, count in counts.items():
            found[fragment_id] = found.get(fragment_id, 0) + count
    return found
