"""ADD COLUMNS with values: one new file a fragment, with the new columns only; nothing else is written.

Files that are written stay good while their fragment stays: when other writers append or delete meanwhile, only what is missing is
calculated again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lance_spark.errors import CommitConflictError, CommitStateUnknownError, LanceError, SchemaMismatchError
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.manifest import Manifest
from lance_spark.schema.schema import quoted
from lance_spark.spark.types import stored
from lance_spark.table.changes.column_files import ColumnFile, ColumnTarget, write_columns
from lance_spark.table.changes.delta import ROW_ADDRESS
from lance_spark.table.changes.new_columns import (
    Compute,
    Formulas,
    add_columns_of,
    commit_columns,
    discard_columns,
    new_fields,
    plan_columns,
)
from lance_spark.table.changes.row_changes import TRIES
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot
from lance_spark.table.write.write import WriteOptions, WriteTarget, rewrite_target
from lance_spark.verbs.condition import Condition, as_column, own_formulas
from lance_spark.verbs.job import run_tasks, write_partitions
from lance_spark.verbs.target import Target


@dataclass(frozen=True)
class ColumnsAdded:
    """What adding columns did. `version` is the version that it made."""

    version: int
    num_files_added: int = 0
    num_bytes_added: int = 0


@dataclass(frozen=True)
class Source:
    """Where the values come from: `schema` are the new columns, `write` gives files for the fragments with the given ids."""

    schema: pa.Schema
    write: Callable[[Snapshot, ColumnTarget, frozenset[int]], list[ColumnFile]]


def from_expressions(target: Target, values: Mapping[str, Condition]) -> Source:
    """Columns with these values: SQL text or Columns of Spark over the table's columns."""
    snapshot = target.latest()
    chosen = {name: as_column(value).alias(name) for name, value in values.items()}
    schema = stored(target.rows(snapshot).select(*chosen.values()).schema, {})
    formulas = own_formulas(target.spark, values, snapshot, target.alias, new=True)
    if formulas is not None:
        compute = Formulas(formulas)
        return Source(schema, partial(_by_function, target, compute, compute.columns))

    def write(snapshot: Snapshot, columns: ColumnTarget, fragments: frozenset[int]) -> list[ColumnFile]:
        rows = target.rows(snapshot).where(F.shiftright(target.address, 32).isin(*sorted(fragments)))
        return write_by_fragment(rows.select(target.address, *chosen.values()), columns)

    return Source(schema, write)


def from_function(target: Target, function: Compute, schema: pa.Schema, columns: Sequence[str] | None) -> Source:
    """Columns of `schema` that `function` makes of record batches of `columns`, None: all."""
    return Source(schema, partial(_by_function, target, function, columns))


def from_frame(target: Target, df: DataFrame, on: Sequence[str]) -> Source:
    """The other columns of `df`, for the rows whose columns `on` are equal; `on` may be `_rowaddr`. Rows without a match get null."""
    keys = {name.lower() for name in on}
    names = [name for name in df.columns if name.lower() not in keys]
    if not names:
        raise SchemaMismatchError(f"the DataFrame has no column beside {', '.join(on)}")
    schema = stored(df.select(*(f"`{name}`" for name in names)).schema, {})

    def write(snapshot: Snapshot, columns: ColumnTarget, fragments: frozenset[int]) -> list[ColumnFile]:
        rows = target.rows(snapshot).select(*dict.fromkeys([*(f"`{name}`" for name in on), ROW_ADDRESS]))
        matched = rows.join(df, list(on), "inner").where(F.shiftright(ROW_ADDRESS, 32).isin(*sorted(fragments)))
        return write_by_fragment(matched.select(ROW_ADDRESS, *(f"`{name}`" for name in names)), columns)

    return Source(schema, write)


def _by_function(
    target: Target, compute: Compute, columns: Sequence[str] | None, snapshot: Snapshot, new: ColumnTarget, fragments: frozenset[int]
) -> list[ColumnFile]:
    names = None if columns is None else [name if "`" in name or "." in name else quoted([name]) for name in columns]
    tasks = plan_columns(snapshot, new, names, fragments)
    return [file for files in run_tasks(target.spark, tasks, partial(add_columns_of, compute=compute)) for file in files]


def write_by_fragment(rows: DataFrame, target: ColumnTarget) -> list[ColumnFile]:
    """Files of the values in `rows`, brought together by fragment and in the order of their addresses."""
    ordered = rows.repartition(F.shiftright(ROW_ADDRESS, 32)).sortWithinPartitions(ROW_ADDRESS)
    return [file for files in write_partitions(ordered, partial(_write_columns, target)) for file in files]


def _write_columns(target: ColumnTarget, batches: Iterator[pa.RecordBatch]) -> list[ColumnFile]:
    return write_columns(target, (batch for batch in batches if batch.num_rows))


def add_columns(target: Target, source: Source, options: WriteOptions) -> ColumnsAdded:
    """Add the columns of `source` in one commit. Raises SchemaMismatchError for names that there are already."""
    snapshot = target.latest()
    known: dict[int, tuple[Fragment, ColumnFile]] = {}
    write: WriteTarget | None = None
    try:
        for attempt in range(TRIES):
            fields = new_fields(snapshot, source.schema)
            write = replace(write or rewrite_target(snapshot, options), schema=fields, read_version=snapshot.version)
            known = _still_good(snapshot.manifest, known, write)
            missing = frozenset(f.id for f in snapshot.manifest.fragments) - known.keys()
            if missing:
                new = source.write(snapshot, ColumnTarget(write, snapshot.version, False, snapshot.allow_other_stores), missing)
                by_id = snapshot.manifest.lazy_fragments.of_ids(missing)
                known |= {file.fragment_id: (by_id[file.fragment_id], file) for file in new}
            files = {fragment_id: file for fragment_id, (_, file) in known.items()}
            figures = {"num_files_added": len(files), "num_bytes_added": sum(f.file.size or 0 for f in files.values())}
            noted = {**options.noted, **{name: str(value) for name, value in figures.items()}}
            try:
                return ColumnsAdded(commit_columns(snapshot, write, files, noted).version, **figures)
            except CommitConflictError as e:
                if not e.retryable or attempt == TRIES - 1:
                    raise
            snapshot = replace(open_snapshot(snapshot.store), allow_other_stores=snapshot.allow_other_stores)
    except CommitStateUnknownError:
        raise
    except LanceError:
        if write is not None:
            discard_columns(write, [file for _, file in known.values()])
        raise
    raise AssertionError("unreachable")


def _still_good(
    manifest: Manifest, known: Mapping[int, tuple[Fragment, ColumnFile]], write: WriteTarget
) -> dict[int, tuple[Fragment, ColumnFile]]:
    """Those files whose fragments still have the data that the values were calculated from, and whose columns have the same ids."""
    ids = {f.id for f in write.schema.walk()}
    now = manifest.lazy_fragments.of_ids(known)
    return {
        i: (fragment, file)
        for i, (fragment, file) in known.items()
        if i in now and now[i].files == fragment.files and ids.issuperset(file.file.fields)
    }
