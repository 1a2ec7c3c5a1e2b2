"""Updates by formulas, in place or by moving the rows, whichever writes fewer bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pyarrow as pa
from pyroaring import BitMap

from lance_spark.errors import SchemaMismatchError, check_texts
from lance_spark.metadata.row_columns import with_row_columns
from lance_spark.predicate import Formula, Predicate, bind, parse, parse_formula
from lance_spark.schema.schema import Field, Schema
from lance_spark.table.changes.column_files import ColumnFile, ColumnTarget
from lance_spark.table.changes.columns_in_place import InPlacePlan, is_cheaper, is_possible, nullable
from lance_spark.table.changes.delta import ROW_ADDRESS, DeltaPart, DeltaTarget
from lance_spark.table.changes.new_columns import Formulas, add_columns_of, plan_columns
from lance_spark.table.changes.row_changes import DeltaPlan, RowChanges, RowPlan, change_rows
from lance_spark.table.changes.row_tasks import matched_rows, plan_rows, run_row_task
from lance_spark.table.scan.parts import live_by_id
from lance_spark.table.scan.plan import ScanPlan, plan_tasks
from lance_spark.table.scan.runner import Here, Runner
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.conform import check_fits
from lance_spark.table.write.options import WriteOptions


def update(snapshot: Snapshot, values: Mapping[str, str], condition: str | None, options: WriteOptions) -> RowChanges:
    """Update rows in this process. `values` are SQL expressions by column name; without `condition`, all rows are updated."""

    def plan(snapshot: Snapshot) -> RowPlan:
        predicate = None if condition is None else parse(condition, with_row_columns(snapshot.manifest.schema))
        return plan_update(Here(), snapshot, predicate, formulas_of(snapshot, values))

    check_texts("updates", values, '{"v": "v + 1"}')
    if not values:
        raise ValueError("an update needs new values: {column: value}")
    return change_rows(snapshot, options, plan)


def formulas_of(snapshot: Snapshot, values: Mapping[str, str]) -> dict[str, Formula]:
    """The new values of columns, which are SQL text by name, as formulas by exact name. Raises SchemaMismatchError."""
    schema = with_row_columns(snapshot.manifest.schema)
    columns = [(_top_level(snapshot, name), text) for name, text in values.items()]
    assigned = [column.name for column, _ in columns]
    if len(set(assigned)) < len(assigned):
        raise SchemaMismatchError(f"one column has two new values: {', '.join(map(repr, values))}")
    formulas = {column.name: _assigned(parse_formula(text, schema, column=column.name), column) for column, text in columns}
    check_formulas(snapshot, formulas)
    return formulas


def _top_level(snapshot: Snapshot, name: str) -> Field:
    path = snapshot.manifest.schema.resolve(name)
    if len(path) > 1:
        raise SchemaMismatchError(f"{name!r} is a nested field; assign the whole column")
    return path[0]


def _assigned(formula: Formula, field: Field) -> Formula:
    """The formula as a value of the column: as in Spark, dates, local times and instants are cast to each other, here in UTC."""
    as_column = {"date": pa.date32(), "timestamp": bind.ZONED, "timestamp_ntz": bind.UNZONED}
    wanted, found = as_column.get(bind.kind(field.type)), bind.kind(formula.root.type)
    return formula if wanted is None or found not in as_column else replace(formula, root=bind.convert(formula.root, wanted))


def check_formulas(snapshot: Snapshot, formulas: Mapping[str, Formula]) -> None:
    """Raise SchemaMismatchError unless the types of the formulas fit the columns, whose exact names are the keys."""
    fields = {f.name: f for f in snapshot.manifest.schema.fields}
    types = pa.schema([pa.field(name, formula.root.type) for name, formula in formulas.items()])
    check_fits(types, Schema(tuple(nullable(fields[name]) for name in formulas)))


def plan_update(runner: Runner, snapshot: Snapshot, predicate: Predicate | None, formulas: Mapping[str, Formula]) -> RowPlan:
    """Plan an update of the rows that satisfy `predicate`. The formulas have exact column names as keys."""
    names, found = tuple(formulas), None
    if is_possible(snapshot, names):
        found = None if predicate is None else _found(runner, snapshot, predicate)
        matched = live_rows(snapshot) if found is None else {fragment: len(rows) for fragment, rows in found.items()}
        if is_cheaper(snapshot, names, matched):
            compute = Formulas(formulas)

            def files(columns: ColumnTarget) -> list[ColumnFile]:
                tasks = plan_columns(snapshot, columns, compute.columns, matched, predicate)
                return [file for some in runner.run(tasks, partial(add_columns_of, compute=compute)) for file in some]

            return RowPlan(InPlacePlan(snapshot, files, names).write)

    def parts(delta: DeltaTarget) -> list[DeltaPart]:
        return runner.run(plan_rows(snapshot, delta, predicate, formulas, runner.cores, found), run_row_task)

    return RowPlan(DeltaPlan(snapshot, parts, assigned=names).write)


def live_rows(snapshot: Snapshot) -> dict[int, int]:
    """The number of live rows of each fragment."""
    return {fragment: rows for fragment, rows in live_by_id(snapshot).items() if rows}


def rows_by_fragment(runner: Runner, snapshot: Snapshot, predicate: Predicate) -> dict[int, int]:
    """The number of rows that satisfy the predicate, for each fragment with such rows."""
    return {fragment: len(rows) for fragment, rows in _found(runner, snapshot, predicate).items()}


def _found(runner: Runner, snapshot: Snapshot, predicate: Predicate) -> dict[int, BitMap]:
    """The offsets of the rows that satisfy the predicate, for each fragment with such rows."""
    found: dict[int, BitMap] = {}
    tasks = plan_tasks(snapshot, ScanPlan(columns=(ROW_ADDRESS,), predicate=predicate), runner.cores)
    for part in runner.run([task for task in tasks if task.parts], matched_rows):
        for fragment, data in part.items():
            rows = BitMap.deserialize(data)
            found[fragment] = found[fragment] | rows if fragment in found else rows
    return found
