"""Sources of the values of new columns in Spark: expressions, functions of batches, and DataFrames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lance_spark.errors import SchemaMismatchError, check_type
from lance_spark.schema.schema import quoted
from lance_spark.spark.columns.types import inferred
from lance_spark.table.changes.add_columns import Source
from lance_spark.table.changes.checkpoint import Checkpoint, checkpoint_of
from lance_spark.table.changes.column_files import ColumnFile, ColumnTarget, write_columns
from lance_spark.table.changes.delta import ROW_ADDRESS
from lance_spark.table.changes.new_columns import (
    Compute,
    Formulas,
    add_columns_of,
    plan_columns,
)
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.verbs.condition import Condition, as_column, naming_columns, own_formulas
from lance_spark.verbs.job import on_partitions, run_tasks
from lance_spark.verbs.target import Target


def from_expressions(target: Target, values: Mapping[str, Condition]) -> Source:
    """New columns with these values: SQL text or Spark Columns over the table's columns. Raises SchemaMismatchError for unknown ones."""
    snapshot = target.latest()
    chosen = {name: as_column(value).alias(name) for name, value in values.items()}
    with naming_columns():
        schema = inferred(target.rows(snapshot).select(*chosen.values()).schema)
    formulas = own_formulas(target.spark, values, snapshot, target.alias, new=True)
    if formulas is not None:
        compute = Formulas(formulas)
        return Source(schema, partial(_by_function, target, compute, compute.columns, None))

    def write(snapshot: Snapshot, columns: ColumnTarget, fragments: frozenset[int]) -> list[ColumnFile]:
        return write_in_order(target.rows(snapshot, fragments=fragments).select(target.address, *chosen.values()), columns)

    return Source(schema, write)


def from_function(target: Target, function: Compute, schema: pa.Schema, columns: Sequence[str] | None, folder: str | None) -> Source:
    """New columns of `schema`, which `function` computes from record batches of `columns` (None: all); `folder` is for a checkpoint."""
    if not callable(function):
        raise TypeError(f"values must be SQL text by name, a DataFrame or a function, not {function!r}")
    check_type("schema", schema, pa.Schema, "a schema of pyarrow")
    checkpoint = None if folder is None else checkpoint_of(target.latest(), folder, schema, columns)
    return Source(schema, partial(_by_function, target, function, columns, checkpoint), checkpoint)


def from_frame(target: Target, df: DataFrame, on: Sequence[str]) -> Source:
    """The other columns of `df`, matched on the columns `on`, which may be `_rowaddr`. Rows without a match get null."""
    keys = {name.lower() for name in on}
    names = [name for name in df.columns if name.lower() not in keys]
    if not names:
        raise SchemaMismatchError(f"the DataFrame has no column besides {', '.join(on)}; add the columns to be written")
    schema = inferred(df.select(*(quoted([name]) for name in names)).schema)

    def write(snapshot: Snapshot, columns: ColumnTarget, fragments: frozenset[int]) -> list[ColumnFile]:
        rows = target.rows(snapshot).select(*dict.fromkeys([*(quoted([name]) for name in on), ROW_ADDRESS]))
        matched = rows.join(df, list(on), "inner").where(F.shiftright(ROW_ADDRESS, 32).isin(*sorted(fragments)))
        return write_by_fragment(matched.select(ROW_ADDRESS, *(quoted([name]) for name in names)), columns)

    return Source(schema, write)


def _by_function(
    target: Target,
    compute: Compute,
    columns: Sequence[str] | None,
    checkpoint: Checkpoint | None,
    snapshot: Snapshot,
    new: ColumnTarget,
    fragments: frozenset[int],
) -> list[ColumnFile]:
    names = None if columns is None else [name if "`" in name or "." in name else quoted([name]) for name in columns]
    tasks = plan_columns(snapshot, new, names, fragments)
    # A function may take hours for a fragment.
    cores = target.cores() if isinstance(compute, Formulas) else None
    done = run_tasks(target.spark, tasks, partial(add_columns_of, compute=compute, checkpoint=checkpoint), cores)
    return [file for files in done for file in files]


def write_in_order(rows: DataFrame, target: ColumnTarget) -> list[ColumnFile]:
    """Write files with the values in `rows`, which come from whole fragments in the order of their rows.

    They are moved only if Spark must move rows to calculate them, as for a subquery.
    """
    plan = _plan_of(rows)
    if any(step in plan for step in ("Exchange", "Sort")):
        return write_by_fragment(rows, target)
    return [file for files in on_partitions(rows, partial(_write_columns, target)) for file in files]


def _plan_of(rows: DataFrame) -> str:
    """The physical plan, as text."""
    query: Any = getattr(rows, "_jdf", None)
    if query is not None:
        return str(query.queryExecution().executedPlan().toString())
    # Spark Connect has no JVM in this process.
    explain: Any = rows._explain_string
    return str(explain())


def write_by_fragment(rows: DataFrame, target: ColumnTarget) -> list[ColumnFile]:
    """Write files with the values in `rows`, partitioned by fragment and sorted by address."""
    ordered = rows.repartition(F.shiftright(ROW_ADDRESS, 32)).sortWithinPartitions(ROW_ADDRESS)
    return [file for files in on_partitions(ordered, partial(_write_columns, target)) for file in files]


def _write_columns(target: ColumnTarget, batches: Iterator[pa.RecordBatch]) -> list[ColumnFile]:
    return write_columns(target, (batch for batch in batches if batch.num_rows))
