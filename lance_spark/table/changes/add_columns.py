"""ADD COLUMNS with values: writes one new file per fragment, which contains only the new columns.

A written file stays valid as long as the files of its fragment stay the same. If other writers append or delete meanwhile, only the
missing files are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from lance_spark.display.figures import Figures
from lance_spark.errors import CommitConflictError, on_refusal
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.manifest import Manifest
from lance_spark.metadata.row_columns import with_row_columns
from lance_spark.predicate import Formula, parse_formula
from lance_spark.predicate.tree import Column, Literal, walk
from lance_spark.table.changes import alter
from lance_spark.table.changes.checkpoint import Checkpoint
from lance_spark.table.changes.column_files import ColumnFile, ColumnTarget, column_target
from lance_spark.table.changes.new_columns import (
    Formulas,
    NewFields,
    add_columns_of,
    commit_columns,
    new_fields,
    plan_columns,
)
from lance_spark.table.commit.idempotence import done_before
from lance_spark.table.commit.retry import retried
from lance_spark.table.versions.snapshot import Snapshot, in_use
from lance_spark.table.write.options import WriteOptions
from lance_spark.table.write.target import WriteTarget
from lance_spark.table.write.write import discard_job, rewrite_target


@dataclass(frozen=True)
class ColumnsAdded(Figures):
    """The result of adding columns. `version` is the new version."""

    version: int
    num_files_added: int = 0
    num_bytes_added: int = 0


@dataclass(frozen=True)
class Source:
    """The source of the values: `schema` has the new columns, and `write` writes their files for the fragments with the given ids.

    The columns `without_values` are null in all rows. If `write` notes finished fragments in a `checkpoint`, these are not written again.
    """

    schema: pa.Schema
    write: Callable[[Snapshot, ColumnTarget, frozenset[int]], list[ColumnFile]]
    checkpoint: Checkpoint | None = None
    without_values: frozenset[str] = frozenset()


def add_columns(snapshot: Snapshot, source: Source, options: WriteOptions) -> ColumnsAdded:
    """Add the columns of `source` in one commit. Raises SchemaMismatchError for existing names."""
    work = _Adding(source, options)
    with on_refusal(work.discard):
        return retried(snapshot, work.plan)


@dataclass
class _Adding:
    """The addition of columns, with the files that are finished: those that are still valid serve a later version too.

    `columns` are those that the values were calculated from, or more: their ids by name.
    """

    source: Source
    options: WriteOptions
    known: dict[int, tuple[Fragment, ColumnFile]] = field(default_factory=dict)
    columns: dict[str, int] = field(default_factory=dict)
    write: WriteTarget | None = None

    def plan(self, snapshot: Snapshot) -> Callable[[], ColumnsAdded]:
        """Write the files that `snapshot` needs and that are not finished; the function that commits all."""
        source, options = self.source, self.options
        if done := done_before(snapshot.store, options.noted):
            return partial(ColumnsAdded, done.version)
        fields = new_fields(snapshot, source.schema, source.without_values)
        write = replace(self.write or rewrite_target(snapshot, options), schema=fields.written).based_on(snapshot)
        if source.checkpoint is not None and self.write is None:
            noted_before = source.checkpoint.found(snapshot)
            self.known = {i: (fragment, file) for i, (fragment, file, _) in noted_before.items()}
            write = replace(write, since=min([write.since, *(since for _, _, since in noted_before.values())]))
        self.write = write
        known = _still_good(snapshot.manifest, self.known, write)
        if missing := frozenset(f.id for f in snapshot.manifest.fragments) - known.keys():
            if known or source.checkpoint is not None:
                self._check_columns(snapshot)
            self.columns = {f.name: f.id for f in snapshot.manifest.schema.fields}
            with in_use(snapshot):
                new = source.write(snapshot, replace(column_target(snapshot, write), names=fields.names), missing)
            by_id = snapshot.manifest.lazy_fragments.of_ids(missing)
            known |= {file.fragment_id: (by_id[file.fragment_id], file) for file in new}
        self.known = known
        files = {fragment_id: file for fragment_id, (_, file) in known.items()}
        return lambda: self._commit(snapshot, fields, write.since, files)

    def _check_columns(self, snapshot: Snapshot) -> None:
        """Raise CommitConflictError if values would be calculated from other columns than those that are finished."""
        now = {f.name: f.id for f in snapshot.manifest.schema.fields}
        if others := [name for name, i in self.columns.items() if now.get(name, i) != i]:
            what = f"another column is called {others[0]!r} since values were calculated; run the operation again"
            raise CommitConflictError(f"{snapshot}: {what}", retryable=True)

    def _commit(self, snapshot: Snapshot, fields: NewFields, since: float, files: Mapping[int, ColumnFile]) -> ColumnsAdded:
        figures = {"num_files_added": len(files), "num_bytes_added": sum(f.file.size or 0 for f in files.values())}
        noted = {**self.options.noted, **{name: str(value) for name, value in figures.items()}}
        done = ColumnsAdded(commit_columns(snapshot, fields, since, files, noted).version, **figures)
        if self.source.checkpoint is not None:
            self.source.checkpoint.forget(files)
        return done

    def discard(self) -> None:
        """Delete the files of an addition that was given up; those that a checkpoint notes stay for the next run."""
        if self.write is not None and self.source.checkpoint is None:
            discard_job(self.write)


def _still_good(
    manifest: Manifest, known: Mapping[int, tuple[Fragment, ColumnFile]], write: WriteTarget
) -> dict[int, tuple[Fragment, ColumnFile]]:
    """The files that are still valid: their fragments have the same data files, and their columns have the same ids."""
    ids = {f.id for f in write.schema.walk()}
    now = manifest.lazy_fragments.of_ids(known)
    good = {}
    for i, (fragment, file) in known.items():
        is_same = i in now and now[i].sources == fragment.sources
        if is_same and ids.issuperset(file.file.fields):
            good[i] = (fragment, file)
    return good


def add_calculated_columns(
    snapshot: Snapshot, values: Mapping[str, str], options: WriteOptions, columns: pa.Schema | None = None
) -> ColumnsAdded:
    """Add columns in this process. `values` are SQL expressions by column name.

    `columns` are all new columns, if they are not those of the expressions. The others are null in all rows.
    """
    schema = with_row_columns(snapshot.manifest.schema)
    compute = Formulas({name: parse_formula(text, schema, column=name) for name, text in values.items()})

    def write(snapshot: Snapshot, target: ColumnTarget, fragments: frozenset[int]) -> list[ColumnFile]:
        tasks = plan_columns(snapshot, target, compute.columns, fragments)
        return [file for task in tasks for file in add_columns_of(task, compute)]

    if columns is not None:
        return add_columns(snapshot, Source(columns, write, without_values=frozenset(columns.names) - values.keys()), options)
    types = pa.schema([pa.field(name, _column_type(formula)) for name, formula in compute.formulas.items()])
    if snapshot.manifest.data_format != "0.1" and all(_is_typed_null(formula) for formula in compute.formulas.values()):
        return ColumnsAdded(alter.add_null_columns(snapshot, types).version)
    return add_columns(snapshot, Source(types, write), options)


def _column_type(formula: Formula) -> pa.DataType:
    """The type of a column of the formula's values. Conditions join texts as large_string, in which a column of texts is not kept."""
    large = any(isinstance(node, Column) and pa.types.is_large_string(node.type) for node in walk(formula.root))
    return pa.string() if pa.types.is_large_string(formula.root.type) and not large else formula.root.type


def _is_typed_null(formula: Formula) -> bool:
    """Whether the formula is null in all rows, as a type of its own: a column of it needs no files."""
    return isinstance(formula.root, Literal) and formula.root.value is None and not pa.types.is_null(formula.root.type)
