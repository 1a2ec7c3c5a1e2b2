"""MERGE of a source that fits into memory: tasks look for its keys in the columns of the table, and change the rows that match.

Each task scans the key columns of a part of the table and pairs its rows with rows of the source. Other columns are read only of rows
in pairs, and only if a clause uses them. The driver inserts the rows of the source that no task has found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.arrow.selection import take
from lance_spark.arrow.types import is_bytes, is_list
from lance_spark.predicate import Formula, Predicate, calculate, evaluate
from lance_spark.predicate.evaluate import raw_values
from lance_spark.predicate.tree import And, Column, Compare, Expression, walk
from lance_spark.schema.schema import Field, Schema, quoted
from lance_spark.table.changes.columns_in_place import nullable
from lance_spark.table.changes.delta import OPERATION, ROW_ADDRESS, DeltaPart, DeltaTarget
from lance_spark.table.changes.delta_writer import write_rows
from lance_spark.table.scan.key_hash import KeySet, are_hashed, key_hashes
from lance_spark.table.scan.plan import ScanPlan, plan_tasks
from lance_spark.table.scan.rows_at import rows_at
from lance_spark.table.scan.runner import Runner
from lance_spark.table.scan.task import ScanTask
from lance_spark.table.versions.snapshot import Snapshot
from lance_spark.table.write.conform import conform

When = Literal["matched", "not matched", "not matched by source"]
TARGET, SOURCE = "target", "source"
"""The structs that formulas over pairs find the columns of the table and of the source in."""
_ROWS = "rows"
_NONE = -1
_SCAN_ROWS, _MAX_PAIRS, _MAX_BYTES = 1 << 17, 1 << 16, 32 << 20
"""How many rows are scanned at once, and of how many pairs, or bytes of them, the new rows are made at once."""

_LEFT_BYTES, _DECODED_BYTES = 32 << 20, 32
"""What the driver changes by itself, and what a row takes in memory beyond its stored bytes."""


@dataclass(frozen=True)
class MergeClause:
    """WHEN .. THEN: `operation` is one of the numbers in `delta`; an update has a value for each column that any update assigns."""

    when: When
    operation: int
    condition: Predicate | None
    values: Mapping[str, Formula]

    @property
    def formulas(self) -> Iterator[Formula]:
        """The condition and the values."""
        yield from self.values.values()
        if self.condition is not None:
            yield self.condition


@dataclass(frozen=True)
class MergeRows:
    """A merge. All formulas are over pairs of a row of the table and a row of the source, see `TARGET`."""

    source: pa.RecordBatch
    on: Predicate
    clauses: tuple[MergeClause, ...]

    def of(self, when: When) -> list[MergeClause]:
        """The clauses for such rows."""
        return [c for c in self.clauses if c.when == when]

    @cached_property
    def scanned(self) -> tuple[str, ...]:
        """The columns of the table that must be read of every row."""
        conditions = [c.condition for c in self.of("not matched by source") if c.condition is not None]
        return columns_of([self.on, *conditions], TARGET)

    @cached_property
    def most_pairs(self) -> int:
        """How many pairs are made into rows at once: many rows of the table may match one row of the source that has large values."""
        return max(min(_MAX_PAIRS, _MAX_BYTES // max(sum(map(_widest, self.source.columns)), 1)), 1)

    @cached_property
    def index(self) -> _SourceIndex:
        """The rows of the source by key."""
        keys = equal_values(self.on)
        pairs = _sides({SOURCE: self.source}, self.source.num_rows)
        hashes, valid = key_hashes([calculate(source, pairs) for _, source in keys])
        rows = np.arange(len(hashes)) if valid is None else np.flatnonzero(valid)
        rows = rows[np.argsort(hashes[rows], kind="stable")]
        distinct, starts, counts = np.unique(hashes[rows], return_index=True, return_counts=True)
        return _SourceIndex(tuple(target for target, _ in keys), KeySet(distinct), rows, starts, counts)

    def __getstate__(self) -> dict[str, object]:
        return {"source": self.source, "on": self.on, "clauses": self.clauses}


def equal_values(on: Predicate) -> list[tuple[Formula, Formula]]:
    """Formulas over rows of the table, and over rows of the source, that are equal where `on` is true; those that can be hashed."""
    terms = on.root.operands if isinstance(on.root, And) else (on.root,)
    found = []
    for term in terms:
        if isinstance(term, Compare) and term.op == "=" and are_hashed(term.left.type):
            sides = {_side(formula): Formula(formula, on.text) for formula in (term.left, term.right)}
            if set(sides) == {TARGET, SOURCE}:
                found.append((sides[TARGET], sides[SOURCE]))
    return found


def _side(node: Expression) -> str | None:
    """The only side whose columns an expression uses."""
    sides = {n.path[0] for n in walk(node) if isinstance(n, Column)}
    return sides.pop() if len(sides) == 1 else None


def columns_of(formulas: Iterable[Formula], side: str) -> tuple[str, ...]:
    """The top-level columns of a side that formulas use, without duplicates."""
    nodes = (n for formula in formulas for n in walk(formula.root))
    return tuple(dict.fromkeys(n.path[1] for n in nodes if isinstance(n, Column) and n.path[0] == side))


@dataclass(frozen=True)
class _SourceIndex:
    """The rows of a source by the hash of their keys, which are the values `target` of rows of the table.

    `rows` are the row numbers by hash; those with the hash number i of `keys` are the `counts[i]` from `starts[i]`.
    """

    target: tuple[Formula, ...]
    keys: KeySet
    rows: np.ndarray
    starts: np.ndarray
    counts: np.ndarray

    def candidates(self, batch: pa.RecordBatch) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pairs of row numbers, in `batch` and in the source, whose keys have equal hashes; a bounded number at once."""
        pairs = _sides({TARGET: batch}, batch.num_rows)
        rows, places = self.keys.find([calculate(formula, pairs) for formula in self.target])
        counts = self.counts[places]
        ends = np.cumsum(counts)
        start = 0
        while start < len(rows):
            stop = max(int(np.searchsorted(ends, (ends[start - 1] if start else 0) + _MAX_PAIRS, "right")), start + 1)
            some = counts[start:stop]
            within = np.arange(some.sum()) - np.repeat(np.cumsum(some) - some, some)
            yield np.repeat(rows[start:stop], some), self.rows[np.repeat(self.starts[places[start:stop]], some) + within]
            start = stop


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
    changed = (rows for task in found for pairs in task.pairs for rows in _changed(merge, target, pairs))
    own = write_rows(target, chain(changed, _inserted(merge, target, np.flatnonzero(~matched))))
    return [*(task.part for task in found if task.part is not None), own]


def _fewest(snapshot: Snapshot, tasks: int) -> int:
    """With fewer pairs than this, a task leaves them to the driver, which changes at most about `_LEFT_BYTES` of rows."""
    rows = sum(fragment.physical_rows for fragment in snapshot.manifest.fragments)
    width = table_bytes(snapshot) / max(rows, 1) + _DECODED_BYTES
    return int(_LEFT_BYTES / width / max(tasks, 1))


def table_bytes(snapshot: Snapshot) -> int:
    """The bytes of all data files."""
    return sum(file.size or 0 for fragment in snapshot.manifest.fragments for file in fragment.files)


def plan_merge(merge: MergeRows, snapshot: Snapshot, cores: int) -> list[ScanTask]:
    """The tasks that look for matching rows."""
    if not merge.index.keys.hashes.size and not merge.of("not matched by source"):
        return []
    columns = tuple(quoted([name]) for name in merge.scanned)
    plan = ScanPlan(columns=columns, with_row_address=True, batch_size=_SCAN_ROWS)
    return [task for task in plan_tasks(snapshot, plan, cores) if task.parts]


@dataclass(frozen=True)
class _Find:
    """A function that runs a task: the rows of its scan, whose last column is `ROW_ADDRESS`, are paired and then changed."""

    merge: MergeRows
    target: DeltaTarget
    fewest: int

    def __call__(self, task: ScanTask) -> _Found:
        matched = np.zeros(self.merge.source.num_rows, dtype=bool)
        pairs = _joined(_found(self.merge, task, matched), self.merge.most_pairs)
        few: list[_Pairs] = []
        count = 0
        for some in pairs:
            few.append(some)
            count += len(some.addresses)
            if count >= self.fewest:
                every = chain(few, pairs)
                part = write_rows(self.target, (rows for p in every for rows in _changed(self.merge, self.target, p)))
                return _Found(np.packbits(matched).tobytes(), part, ())
        return _Found(np.packbits(matched).tobytes(), None, tuple(few))


def _found(merge: MergeRows, task: ScanTask, matched: np.ndarray) -> Iterator[_Pairs]:
    """The pairs of a task, and its rows without a match to which a clause applies. Sets `matched` for rows of the source in pairs."""
    by_source = merge.of("not matched by source")
    for batch in task.read():
        addresses = batch.column(ROW_ADDRESS).to_numpy().astype(np.uint64, copy=False)
        alone = np.ones(len(addresses), dtype=bool)
        for rows, source in merge.index.candidates(batch):
            sides = {TARGET: _taken(batch, rows), SOURCE: _taken(merge.source, source, columns_of([merge.on], SOURCE))}
            true = _true(merge.on, _sides(sides, len(rows)))
            rows, source = rows[true], source[true]
            alone[rows] = False
            matched[source] = True
            if merge.of("matched"):
                yield _Pairs(addresses[rows], source)
        if by_source:
            rest = _taken(batch, np.flatnonzero(alone))
            pairs = _sides({TARGET: rest}, rest.num_rows)
            applies = np.zeros(rest.num_rows, dtype=bool)
            for clause in by_source:
                applies |= True if clause.condition is None else _true(clause.condition, pairs)
            left = addresses[alone][applies]
            yield _Pairs(left, np.full(len(left), _NONE))


def _joined(pairs: Iterable[_Pairs], most: int) -> Iterator[_Pairs]:
    """The pairs, `most` at once."""
    waiting: list[_Pairs] = []
    for some in pairs:
        for start in range(0, len(some.addresses), most):
            waiting.append(_Pairs(some.addresses[start : start + most], some.source[start : start + most]))
            if sum(len(p.addresses) for p in waiting) >= most:
                yield _together(waiting)
                waiting = []
    if waiting:
        yield _together(waiting)


def _together(pairs: Sequence[_Pairs]) -> _Pairs:
    return _Pairs(np.concatenate([p.addresses for p in pairs]), np.concatenate([p.source for p in pairs]))


def _widest(column: pa.Array) -> int:
    """About the most bytes that a value of the column has."""
    average: int = column.nbytes // max(len(column), 1)
    t = column.type
    if is_bytes(t):
        return average + int(pc.max(pc.binary_length(column)).as_py() or 0)
    if is_list(t):
        lengths = pc.list_value_length(column)
        items = int(pc.sum(lengths).as_py() or 0)
        longest = int(pc.max(lengths).as_py() or 0)
        return average + longest * int(column.nbytes) // max(items, 1)
    return average


def _changed(merge: MergeRows, target: DeltaTarget, pairs: _Pairs) -> Iterator[pa.RecordBatch]:
    """The delta rows of pairs."""
    for clauses, chosen in (
        (merge.of("matched"), pairs.source != _NONE),
        (merge.of("not matched by source"), pairs.source == _NONE),
    ):
        if clauses and chosen.any():
            addresses, source = pairs.addresses[chosen], pairs.source[chosen]
            formulas = [formula for clause in clauses for formula in clause.formulas]
            sides = {TARGET: rows_at(target.snapshot, addresses, columns_of(formulas, TARGET))}
            if names := columns_of(formulas, SOURCE):
                sides[SOURCE] = _taken(merge.source, source, names)
            yield from _applied(clauses, sides, addresses, len(addresses), target.write.schema)


def _inserted(merge: MergeRows, target: DeltaTarget, rows: np.ndarray) -> Iterator[pa.RecordBatch]:
    """The delta rows of rows of the source without a match."""
    clauses = merge.of("not matched")
    if clauses and len(rows):
        names = columns_of([formula for clause in clauses for formula in clause.formulas], SOURCE)
        yield from _applied(clauses, {SOURCE: _taken(merge.source, rows, names)}, None, len(rows), target.write.schema)


def _applied(
    clauses: Sequence[MergeClause], sides: Mapping[str, pa.RecordBatch], addresses: np.ndarray | None, count: int, schema: Schema
) -> Iterator[pa.RecordBatch]:
    """The delta rows of pairs: for each, the first clause whose condition is true applies."""
    left = np.arange(count)
    for clause in clauses:
        if not len(left):
            return
        here = sides if len(left) == count else {name: _taken(batch, left) for name, batch in sides.items()}
        chosen = left
        if clause.condition is not None:
            true = _true(clause.condition, _sides(here, len(left)))
            here = {name: _taken(batch, np.flatnonzero(true)) for name, batch in here.items()}
            chosen, left = left[true], left[~true]
        else:
            left = left[:0]
        if len(chosen):
            pairs = _sides(here, len(chosen))
            given = pa.nulls(len(chosen), pa.uint64()) if addresses is None else pa.array(addresses[chosen])
            columns = {OPERATION: pa.array(np.full(len(chosen), clause.operation, np.int32)), ROW_ADDRESS: given}
            fields = {f.name: f for f in schema.fields}
            columns |= {name: _value(formula, pairs, fields[name]) for name, formula in clause.values.items()}
            yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _value(formula: Formula, pairs: pa.RecordBatch, field: Field) -> pa.Array:
    """The values for a column, in its type; nulls and text as JSON are checked by the writer."""
    # A column keeps its own type, which may be one that conditions cannot use.
    value = raw_values(formula.root, pairs) if isinstance(formula.root, Column) else calculate(formula, pairs)
    if field.logical_type == "json":
        return value.cast(pa.string())
    return conform(pa.RecordBatch.from_arrays([value], names=[field.name]), Schema((nullable(field),))).column(0)


def _true(condition: Predicate, pairs: pa.RecordBatch) -> np.ndarray:
    found: np.ndarray = pc.fill_null(evaluate(condition, pairs), False).to_numpy(zero_copy_only=False)
    return found


def _sides(sides: Mapping[str, pa.RecordBatch], count: int) -> pa.RecordBatch:
    """Rows of both sides as structs. A column of nulls tells their number where no side has a column."""
    given = {name: batch for name, batch in sides.items() if batch.num_columns}
    structs = [pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema)) for batch in given.values()]
    return pa.RecordBatch.from_arrays([*structs, pa.nulls(count)], names=[*given, _ROWS])


def _taken(batch: pa.RecordBatch, rows: np.ndarray, names: Sequence[str] | None = None) -> pa.RecordBatch:
    """Rows of a batch, with the columns `names`."""
    chosen = batch if names is None else batch.select(list(names))
    places = pa.array(rows)
    return pa.RecordBatch.from_arrays([take(column, places) for column in chosen.columns], schema=chosen.schema)
