"""MERGE of a source that fits into memory: tasks look for its keys in the columns of the table, and change the rows that match.

Each task scans the key columns of a part of the table and pairs its rows with rows of the source. Other columns are read only of rows
in pairs, and only if a clause uses them. The driver inserts the rows of the source that no task has found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.arrow.selection import joined
from lance_spark.arrow.types import is_bytes, is_list
from lance_spark.errors import AmbiguousMergeError
from lance_spark.predicate import Formula, Predicate, calculate
from lance_spark.predicate.evaluate import raw_values
from lance_spark.predicate.tree import Column
from lance_spark.schema.schema import Field, Schema, quoted
from lance_spark.table.changes.columns_in_place import nullable
from lance_spark.table.changes.delta import OPERATION, ROW_ADDRESS, DeltaPart, DeltaTarget
from lance_spark.table.changes.delta_writer import write_rows
from lance_spark.table.changes.merge.pairing import SOURCE, TARGET, Pairing, columns_of, is_true, sides, taken
from lance_spark.table.scan.plan import ScanPlan, plan_tasks
from lance_spark.table.scan.rows_at import read_rows, rows_at
from lance_spark.table.scan.runner import Runner
from lance_spark.table.scan.task import ScanTask
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.conform import conform
from lance_spark.table.write.nested_values import completed

When = Literal["matched", "not matched", "not matched by source"]
_NONE = -1
_MAX_PAIRS, _MAX_BYTES, _SCANNED_BYTES = 1 << 16, 32 << 20, 256 << 20
"""The pairs, and the bytes of them, whose new rows are made at once, and the bytes of keys that are paired at once."""

_LEFT_BYTES, _DECODED_BYTES = 32 << 20, 32
"""What the driver changes by itself, and what a row takes in memory beyond its stored bytes."""


@dataclass(frozen=True)
class MergeClause:
    """WHEN .. THEN: `operation` is one of the numbers in `delta`; an update has a value for each column that any update assigns.

    Columns in `keeps` keep the table's values in nested fields that their new values lack.
    """

    when: When
    operation: int
    condition: Predicate | None
    values: Mapping[str, Formula]
    keeps: tuple[str, ...] = ()

    @property
    def formulas(self) -> Iterator[Formula]:
        """The condition, the values, and the values that are kept."""
        yield from self.values.values()
        yield from (column(TARGET, name) for name in self.keeps)
        if self.condition is not None:
            yield self.condition


@dataclass(frozen=True)
class MergeRows:
    """A merge. All formulas are over pairs of a row of the table and a row of the source, see `TARGET`."""

    pairing: Pairing
    clauses: tuple[MergeClause, ...]

    @property
    def source(self) -> pa.Table | pa.RecordBatch:
        """The rows of the source."""
        return self.pairing.source

    def of(self, when: When) -> list[MergeClause]:
        """The clauses for such rows."""
        return [c for c in self.clauses if c.when == when]

    @cached_property
    def scanned(self) -> tuple[str, ...]:
        """The columns of the table that must be read of every row."""
        conditions = [c.condition for c in self.of("not matched by source") if c.condition is not None]
        return (*dict.fromkeys((*self.pairing.columns, *columns_of(conditions, TARGET))),)

    @cached_property
    def row_bytes(self) -> np.ndarray:
        """About how many bytes each row of the source has (int64)."""
        return sum(map(_value_bytes, self.source.columns), np.zeros(self.source.num_rows, dtype=np.int64))

    def __getstate__(self) -> dict[str, object]:
        return {"pairing": self.pairing, "clauses": self.clauses}


def column(side: str, name: str) -> Formula:
    """A column of a side as it is, also of a type that conditions cannot use."""
    return Formula(_column(side, name), name)


def _column(side: str, name: str) -> Column:
    return Column((side, name), pa.null())


@dataclass(frozen=True)
class _Pairs:
    """Addresses of rows of the table (uint64), and numbers of rows of the source, `_NONE` for a row without a match."""

    addresses: np.ndarray
    source: np.ndarray


@dataclass(frozen=True)
class _Found:
    """The result of a task: which rows of the source match (one bit each), and either what it has written or pairs to be changed."""

    matched: bytes
    part: DeltaPart | None
    pairs: tuple[_Pairs, ...]


def merge_in_tasks(merge: MergeRows, snapshot: Snapshot, target: DeltaTarget, runner: Runner, tasks: Sequence[ScanTask]) -> list[DeltaPart]:
    """Run the merge. Tasks with few pairs leave them to this process, so that there are no small fragments.

    `tasks` are those of `plan_merge`.
    """
    found = runner.run(tasks, _Find(merge, target, _fewest(snapshot, len(tasks))))
    size = merge.source.num_rows
    matched = np.zeros(size, dtype=bool)
    for task in found:
        matched |= np.unpackbits(np.frombuffer(task.matched, np.uint8), count=size).astype(bool)
    table = _of(target)
    changed = (rows for task in found for pairs in task.pairs for rows in _changed(merge, table, pairs))
    own = write_rows(target, chain(changed, _inserted(merge, table, np.flatnonzero(~matched))))
    return [*(task.part for task in found if task.part is not None), own]


def delta_rows(merge: MergeRows, table: Table, tasks: Iterable[Task]) -> Iterator[pa.RecordBatch]:
    """The delta rows of a merge, which is run in this process. `tasks` are those of `merge_plan`."""
    matched = np.zeros(merge.source.num_rows, dtype=bool)
    for task in tasks:
        for pairs in _pieces(_found(merge, task, matched), merge.row_bytes):
            yield from _changed(merge, table, pairs)
    yield from _inserted(merge, table, np.flatnonzero(~matched))


def _fewest(snapshot: Snapshot, tasks: int) -> int:
    """The fewest pairs that a task changes. It leaves fewer to the driver, which changes at most about `_LEFT_BYTES` of rows."""
    rows = sum(fragment.physical_rows for fragment in snapshot.manifest.fragments)
    width = table_bytes(snapshot) / max(rows, 1) + _DECODED_BYTES
    return int(_LEFT_BYTES / width / max(tasks, 1))


def table_bytes(snapshot: Snapshot) -> int:
    """The bytes of all data files."""
    return sum(file.size or 0 for fragment in snapshot.manifest.fragments for file in fragment.files)


def ambiguous_row(address: int, snapshot: Snapshot, keys: Sequence[str]) -> AmbiguousMergeError:
    """The error for a row of the table that several rows of the source change, with its values in these columns."""
    values: Mapping[str, object] = {}
    if keys:
        fields = snapshot.manifest.schema.select([quoted([name]) for name in keys])
        values = read_rows(snapshot, np.array([address], dtype=np.uint64), fields).to_pylist()[0]
    return ambiguous_values(address, str(snapshot), values)


def ambiguous_values(address: int, version: str, values: Mapping[str, object]) -> AmbiguousMergeError:
    """The error for a row that several rows of the source change, with its values in some columns."""
    named = ", ".join(f"{name} = {value!r}" for name, value in values.items())
    row = f"row with {named}" if named else f"row at address {address}"
    return AmbiguousMergeError(f"{version}: more than one row of the source changes the {row}", address)


def plan_merge(merge: MergeRows, snapshot: Snapshot, cores: int) -> list[ScanTask]:
    """The tasks that look for matching rows."""
    if merge.pairing.is_empty and not merge.of("not matched by source"):
        return []
    return [task for task in plan_tasks(snapshot, merge_plan(merge), cores) if task.parts]


def merge_plan(merge: MergeRows) -> ScanPlan:
    """The scan that looks for matching rows."""
    columns = tuple(quoted([name]) for name in merge.scanned)
    return ScanPlan(columns=columns, with_row_address=True, batch_size=merge.pairing.scan_rows)


class Task(Protocol):
    """A part of the scan `merge_plan`."""

    def read(self) -> Iterable[pa.RecordBatch]:
        """Its rows."""


@dataclass(frozen=True)
class Table:
    """What a merge asks of the rows that it changes: their columns, and some of these at addresses."""

    schema: Schema
    rows_at: Callable[[np.ndarray, tuple[str, ...]], pa.RecordBatch]


def _of(target: DeltaTarget) -> Table:
    return Table(target.write.schema, partial(rows_at, target.snapshot))


@dataclass(frozen=True)
class _Find:
    """A function that runs a task: the rows of its scan, whose last column is `ROW_ADDRESS`, are paired and then changed."""

    merge: MergeRows
    target: DeltaTarget
    fewest: int

    def __call__(self, task: ScanTask) -> _Found:
        matched = np.zeros(self.merge.source.num_rows, dtype=bool)
        pairs = _pieces(_found(self.merge, task, matched), self.merge.row_bytes)
        few: list[_Pairs] = []
        count = 0
        for some in pairs:
            few.append(some)
            count += len(some.addresses)
            if count >= self.fewest:
                every, table = chain(few, pairs), _of(self.target)
                part = write_rows(self.target, (rows for p in every for rows in _changed(self.merge, table, p)))
                return _Found(np.packbits(matched).tobytes(), part, ())
        return _Found(np.packbits(matched).tobytes(), None, tuple(few))


def _found(merge: MergeRows, task: Task, matched: np.ndarray) -> Iterator[_Pairs]:
    """The pairs of a task, and its rows without a match to which a clause applies. Sets `matched` for rows of the source in pairs."""
    by_source = merge.of("not matched by source")
    for batch in _together(task.read(), merge.pairing.scan_rows):
        addresses = batch.column(ROW_ADDRESS).to_numpy().astype(np.uint64, copy=False)
        alone = np.ones(len(addresses), dtype=bool)
        for rows, source in merge.pairing.pairs(batch):
            alone[rows] = False
            matched[source] = True
            if merge.of("matched"):
                yield _Pairs(addresses[rows], source)
        if by_source:
            rest = taken(batch, np.flatnonzero(alone))
            pairs = sides({TARGET: rest}, rest.num_rows)
            applies = np.zeros(rest.num_rows, dtype=bool)
            for clause in by_source:
                applies |= True if clause.condition is None else is_true(clause.condition, pairs)
            left = addresses[alone][applies]
            yield _Pairs(left, np.full(len(left), _NONE))


def _together(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The rows in batches of about so many, or of `_SCANNED_BYTES`, since fragments may be small."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(b.num_rows for b in waiting) >= rows or sum(b.nbytes for b in waiting) >= _SCANNED_BYTES:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    columns = zip(*(batch.columns for batch in batches), strict=True)
    return pa.RecordBatch.from_arrays([joined(chunks) for chunks in columns], schema=batches[0].schema)


def _pieces(pairs: Iterable[_Pairs], row_bytes: np.ndarray) -> Iterator[_Pairs]:
    """The pairs, about `_MAX_PAIRS` or `_MAX_BYTES` of the source at once: many rows of the table may match one large row of the source."""
    waiting: list[_Pairs] = []
    rows = size = 0
    for some in pairs:
        if len(row_bytes):
            sizes = np.where(some.source == _NONE, 0, row_bytes[some.source])
        else:
            sizes = np.zeros(len(some.source), dtype=np.int64)
        ends = np.cumsum(sizes)
        start = 0
        while start < len(ends):
            before = ends[start - 1] if start else 0
            stop = min(max(int(np.searchsorted(ends, before + _MAX_BYTES, "right")), start + 1), start + _MAX_PAIRS)
            waiting.append(_Pairs(some.addresses[start:stop], some.source[start:stop]))
            rows += stop - start
            size += int(ends[stop - 1] - before)
            start = stop
            if rows >= _MAX_PAIRS or size >= _MAX_BYTES:
                yield _as_one(waiting)
                waiting, rows, size = [], 0, 0
    if waiting:
        yield _as_one(waiting)


def _as_one(pairs: Sequence[_Pairs]) -> _Pairs:
    return _Pairs(np.concatenate([p.addresses for p in pairs]), np.concatenate([p.source for p in pairs]))


def _value_bytes(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """About how many bytes each value of the column has."""
    t = column.type
    if is_bytes(t):
        lengths = pc.binary_length(column)
    elif is_list(t):
        lengths = pc.list_value_length(column)
    else:
        return np.full(len(column), column.nbytes // max(len(column), 1))
    counts = pc.fill_null(lengths, 0).to_numpy().astype(np.int64)
    item = 1 if is_bytes(t) else column.nbytes // max(int(counts.sum()), 1)
    return np.asarray(counts * item)


def _changed(merge: MergeRows, table: Table, pairs: _Pairs) -> Iterator[pa.RecordBatch]:
    """The delta rows of pairs."""
    is_matched = pairs.source != _NONE
    kinds = ((merge.of("matched"), is_matched), (merge.of("not matched by source"), ~is_matched))
    for clauses, chosen in kinds:
        if clauses and chosen.any():
            addresses, source = pairs.addresses[chosen], pairs.source[chosen]
            formulas = [formula for clause in clauses for formula in clause.formulas]
            both = {TARGET: table.rows_at(addresses, columns_of(formulas, TARGET))}
            if names := columns_of(formulas, SOURCE):
                both[SOURCE] = taken(merge.source, source, names)
            yield from _applied(clauses, both, addresses, len(addresses), table.schema)


def _inserted(merge: MergeRows, table: Table, rows: np.ndarray) -> Iterator[pa.RecordBatch]:
    """The delta rows of rows of the source without a match."""
    clauses = merge.of("not matched")
    names = columns_of([formula for clause in clauses for formula in clause.formulas], SOURCE)
    for some in _pieces([_Pairs(rows, rows)] if clauses else [], merge.row_bytes):
        yield from _applied(clauses, {SOURCE: taken(merge.source, some.source, names)}, None, len(some.source), table.schema)


def _applied(
    clauses: Sequence[MergeClause], both: Mapping[str, pa.RecordBatch], addresses: np.ndarray | None, count: int, schema: Schema
) -> Iterator[pa.RecordBatch]:
    """The delta rows of pairs: for each, the first clause whose condition is true applies."""
    left = np.arange(count)
    for clause in clauses:
        if not len(left):
            return
        here = both if len(left) == count else {name: taken(batch, left) for name, batch in both.items()}
        chosen = left
        if clause.condition is not None:
            true = is_true(clause.condition, sides(here, len(left)))
            here = {name: taken(batch, np.flatnonzero(true)) for name, batch in here.items()}
            chosen, left = left[true], left[~true]
        else:
            left = left[:0]
        if len(chosen):
            given = pa.nulls(len(chosen), pa.uint64()) if addresses is None else pa.array(addresses[chosen])
            columns = {OPERATION: pa.array(np.full(len(chosen), clause.operation, np.int32)), ROW_ADDRESS: given}
            columns |= _values(clause, sides(here, len(chosen)), schema)
            yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _values(clause: MergeClause, pairs: pa.RecordBatch, schema: Schema) -> dict[str, pa.Array]:
    """The values of a clause by column, in the types of the columns; nulls and text as JSON are checked by the writer."""
    fields = {f.name: f for f in schema.fields}
    values = {}
    for name, formula in clause.values.items():
        # A column keeps its own type, which may be one that conditions cannot use.
        value = raw_values(formula.root, pairs) if isinstance(formula.root, Column) else calculate(formula, pairs)
        if name in clause.keeps:
            value = completed(value, raw_values(_column(TARGET, name), pairs), fields[name], name)
        values[name] = _fitting(value, fields[name])
    return values


def _fitting(value: pa.Array, field: Field) -> pa.Array:
    if field.logical_type == "json":
        return value.cast(pa.string())
    return conform(pa.RecordBatch.from_arrays([value], names=[field.name]), Schema((nullable(field),))).column(0)
