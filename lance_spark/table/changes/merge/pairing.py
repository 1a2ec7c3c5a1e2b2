"""Which rows of a table and of a source belong together: by a condition of which keys are hashed, or by equal keys of any type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.arrow.equal_keys import equal_keys
from lance_spark.arrow.selection import joined, take, take_rows
from lance_spark.predicate import Formula, Predicate, calculate, evaluate
from lance_spark.predicate.compare import plain
from lance_spark.predicate.tree import And, Column, Compare, Expression, walk
from lance_spark.schema.schema import Schema
from lance_spark.table.scan.key_hash import KeySet, are_hashed, key_hashes
from lance_spark.table.write.conform import conform

TARGET, SOURCE = "target", "source"
"""The structs that formulas over pairs find the columns of the table and of the source in."""
_ROWS = "rows"
_SCAN_ROWS, _JOINED_ROWS, _MAX_CANDIDATES = 1 << 17, 1 << 20, 1 << 16
"""How many rows of the table are paired at once: an index of the source serves any batch, while a join reads the whole source again."""

Rows = tuple[np.ndarray, np.ndarray]
"""Row numbers in a batch of the table, and in the source, of pairs."""


class Pairing(Protocol):
    """Pairs the rows of `source` with rows of the table, of which it needs `columns`. `scan_rows` is a good size of a batch."""

    @property
    def source(self) -> pa.Table | pa.RecordBatch: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def scan_rows(self) -> int: ...

    @property
    def is_empty(self) -> bool:
        """Whether no row of the source has a key."""

    def pairs(self, batch: pa.RecordBatch) -> Iterator[Rows]:
        """The pairs of a batch of the table, in bounded pieces where it is possible. They may come in any order."""


@dataclass(frozen=True)
class ByCondition:
    """Rows for which `on`, a formula over pairs, is true; see `equal_values` for what it must contain."""

    source: pa.RecordBatch
    on: Predicate

    scan_rows = _SCAN_ROWS

    @property
    def columns(self) -> tuple[str, ...]:
        return columns_of([self.on], TARGET)

    @property
    def is_empty(self) -> bool:
        return not self._index.keys.hashes.size

    def pairs(self, batch: pa.RecordBatch) -> Iterator[Rows]:
        """The candidates of the index for which the condition is true."""
        for rows, source in self._index.candidates(batch):
            together = {TARGET: taken(batch, rows), SOURCE: taken(self.source, source, columns_of([self.on], SOURCE))}
            true = is_true(self.on, sides(together, len(rows)))
            yield rows[true], source[true]

    @cached_property
    def _index(self) -> _SourceIndex:
        keys = equal_values(self.on)
        pairs = sides({SOURCE: self.source}, self.source.num_rows)
        return _SourceIndex.of([target for target, _ in keys], [calculate(source, pairs) for _, source in keys])

    def __getstate__(self) -> dict[str, object]:
        return {"source": self.source, "on": self.on}


@dataclass(frozen=True)
class ByKeys:
    """Rows whose keys, columns of these names on both sides, are equal as in pylance: of any type, and a null equals nothing.

    `schema` is the table's.
    """

    source: pa.Table
    columns: tuple[str, ...]
    schema: Schema

    is_empty = False

    @property
    def scan_rows(self) -> int:
        return _JOINED_ROWS if self._index is None else _SCAN_ROWS

    def pairs(self, batch: pa.RecordBatch) -> Iterator[Rows]:
        """The candidates of an index whose keys are equal; of keys that cannot be hashed, one piece: a join."""
        if self._index is None:
            source, rows = equal_keys(self._keys, pa.Table.from_batches([batch]), self.columns)
            yield rows, source
            return
        for rows, source in self._index.candidates(batch):
            found, known = taken(batch, rows, self.columns), taken(self._keys, source, self.columns)
            same = np.ones(len(rows), np.bool_)
            for ours, theirs in zip(found.columns, known.columns):
                same &= np.asarray(pc.equal(plain(ours), plain(theirs)))
            yield rows[same], source[same]

    @cached_property
    def _index(self) -> _SourceIndex | None:
        """An index of the source; None if it has no rows, or a key is of a type whose values are compared in another way than hashes."""
        if not self._keys.num_rows:
            return None
        keys = {name: plain(joined(self._keys[name].chunks)) for name in self.columns}
        if not all(_are_equal_by_hash(key.type) for key in keys.values()):
            return None
        columns_of_target = [Formula(Column((TARGET, name), key.type), name) for name, key in keys.items()]
        return _SourceIndex.of(columns_of_target, list(keys.values()))

    @cached_property
    def _keys(self) -> pa.Table:
        keys = Schema(tuple(f for f in self.schema.fields if f.name in self.columns))
        batches = [conform(batch, keys) for batch in self.source.to_batches()]
        return pa.Table.from_batches(batches, schema=pa.schema([f.to_arrow() for f in keys.fields]))

    def __getstate__(self) -> dict[str, object]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


def _are_equal_by_hash(t: pa.DataType) -> bool:
    """Whether values of a type are equal where Arrow's are, and no less exactly: floats are not, nor are instants in nanoseconds."""
    return are_hashed(t) and not pa.types.is_floating(t) and not (pa.types.is_timestamp(t) and t.unit == "ns")


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

    @classmethod
    def of(cls, target: Sequence[Formula], keys: Sequence[pa.Array]) -> _SourceIndex:
        """The index of a source with these keys, a column for each of `target`. Rows with nulls in them are left out."""
        hashes, valid = key_hashes(keys)
        rows = np.arange(len(hashes)) if valid is None else np.flatnonzero(valid)
        rows = rows[np.argsort(hashes[rows], kind="stable")]
        distinct, starts, counts = np.unique(hashes[rows], return_index=True, return_counts=True)
        return cls(tuple(target), KeySet(distinct), rows, starts, counts)

    def candidates(self, batch: pa.RecordBatch) -> Iterator[Rows]:
        """Pairs whose keys have equal hashes; a bounded number at once."""
        pairs = sides({TARGET: batch}, batch.num_rows)
        rows, places = self.keys.find([calculate(formula, pairs) for formula in self.target])
        counts = self.counts[places]
        ends = np.cumsum(counts)
        start = 0
        while start < len(rows):
            stop = max(int(np.searchsorted(ends, (ends[start - 1] if start else 0) + _MAX_CANDIDATES, "right")), start + 1)
            some = counts[start:stop]
            within = np.arange(some.sum()) - np.repeat(np.cumsum(some) - some, some)
            firsts = np.repeat(self.starts[places[start:stop]], some)
            yield np.repeat(rows[start:stop], some), self.rows[firsts + within]
            start = stop


def equal_values(on: Predicate) -> list[tuple[Formula, Formula]]:
    """Formulas over rows of the table, and over rows of the source, that are equal where `on` is true; those that can be hashed."""
    terms = on.root.operands if isinstance(on.root, And) else (on.root,)
    found = []
    for term in terms:
        if isinstance(term, Compare) and term.op == "=" and are_hashed(term.left.type):
            formulas = {_side(formula): Formula(formula, on.text) for formula in (term.left, term.right)}
            if set(formulas) == {TARGET, SOURCE}:
                found.append((formulas[TARGET], formulas[SOURCE]))
    return found


def _side(node: Expression) -> str | None:
    """The only side whose columns an expression uses."""
    used = {n.path[0] for n in walk(node) if isinstance(n, Column)}
    return used.pop() if len(used) == 1 else None


def columns_of(formulas: Iterable[Formula], side: str) -> tuple[str, ...]:
    """The top-level columns of a side that formulas use, without duplicates."""
    nodes = (n for formula in formulas for n in walk(formula.root))
    paths = (n.path for n in nodes if isinstance(n, Column))
    return tuple(dict.fromkeys(path[1] for path in paths if path[0] == side))


def sides(given: Mapping[str, pa.RecordBatch], count: int) -> pa.RecordBatch:
    """Rows of both sides as structs. A column of nulls tells their number where no side has a column."""
    used = {name: batch for name, batch in given.items() if batch.num_columns}
    structs = [pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema)) for batch in used.values()]
    return pa.RecordBatch.from_arrays([*structs, pa.nulls(count)], names=[*used, _ROWS])


def taken(rows: pa.Table | pa.RecordBatch, numbers: np.ndarray, names: Sequence[str] | None = None) -> pa.RecordBatch:
    """Rows by their numbers, with the columns `names`."""
    chosen = rows if names is None else rows.select(list(names))
    places = pa.array(numbers)
    if isinstance(chosen, pa.Table):
        found = take_rows(chosen, places)
        return pa.RecordBatch.from_arrays([joined(column.chunks) for column in found.columns], schema=found.schema)
    return pa.RecordBatch.from_arrays([take(column, places) for column in chosen.columns], schema=chosen.schema)


def is_true(condition: Predicate, pairs: pa.RecordBatch) -> np.ndarray:
    """For which pairs a condition is true (bool)."""
    found: np.ndarray = pc.fill_null(evaluate(condition, pairs), False).to_numpy(zero_copy_only=False)
    return found
