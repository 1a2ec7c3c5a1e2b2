"""Partial aggregates of the rows of a task: one or more rows for each group, which Spark combines.

Rows are grouped in chunks, and the groups of the chunks are merged. Memory is bounded: too many groups are returned, and merging
starts anew. Where grouping does not help or cannot be exact, each row is returned as a group of its own, which is always right. A row takes
longer in Spark than here: grouping helps even where a group has two rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.predicate.evaluate import raw_values
from lance_spark.predicate.tree import Column
from lance_spark.spark.aggregation.exact import MOST, largest
from lance_spark.spark.aggregation.expression import Expression, columns, numbers, values

CHUNK_ROWS = 1 << 20
CHUNK_BYTES = 64 << 20
MAX_GROUP_BYTES = 32 << 20
_MOST_GROUPS = 2 / 3
"""Groups per row. More are not worth the time that grouping takes."""
_SAMPLE_ROWS, _FEWEST_REPEATS = 16 << 10, 112
"""If a sample of so many rows has fewer repeats, a whole chunk has too many groups: 16,384 rows of 1.2 million keys have 112
(16,384^2 / 2 / 1.2 million), and 2^20 rows of these keys have 700,000 groups."""
_SMALL_CHUNK = 4096
"""Rows from which on it is judged whether grouping pays, and in which sums that overflow are looked for."""
_BATCH_ROWS = 32 << 10
_MOST_LONG = (1 << 63) - 1


@dataclass(frozen=True)
class Aggregate:
    """The number of rows (`count` without an argument) or of values that are not null, the smallest or largest value, or the sum.

    Sums are of integers, as longs; of decimals, as the type of the argument; or of floating point numbers, as doubles.
    """

    function: Literal["count", "min", "max", "sum"]
    argument: Expression | None = None


@dataclass(frozen=True)
class Aggregation:
    """Aggregates of the rows with equal `keys`, or of all rows if there are none. `result` has the keys, then the aggregates."""

    keys: tuple[Column, ...]
    aggregates: tuple[Aggregate, ...]
    result: pa.Schema

    @property
    def counts_rows(self) -> bool:
        """True if only the number of all rows is needed, for which no column has to be read."""
        return not self.columns()

    def columns(self) -> list[Column]:
        """All columns that are needed."""
        return [*self.keys, *(c for a in self.aggregates if a.argument is not None for c in columns(a.argument))]


def partial(aggregation: Aggregation, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The groups of the rows of `batches`, which have Spark's types. Without keys, there is at least one row."""
    groups = _Groups(aggregation)
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= groups.chunk_rows or size >= CHUNK_BYTES:
            yield from groups.add(_combined(waiting))
            waiting, rows, size = [], 0, 0
    if waiting:
        yield from groups.add(_combined(waiting))
    yield from groups.rest()
    if not aggregation.keys and not groups.returned:
        yield _of_no_rows(aggregation)


def _combined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _of_no_rows(aggregation: Aggregation) -> pa.RecordBatch:
    columns = [pa.array([0 if a.function == "count" else None], f.type) for a, f in zip(aggregation.aggregates, aggregation.result)]
    return pa.RecordBatch.from_arrays(columns, schema=aggregation.result)


@dataclass(frozen=True)
class _Rows:
    """The keys and the arguments of the aggregates for each row; None for an aggregate that counts rows."""

    count: int
    keys: list[pa.Array]
    arguments: list[pa.Array | None]
    bounds: list[int]
    """For each aggregate, the largest absolute value that a sum of any of the rows can have; 0 if it cannot overflow."""


class _Groups:
    """The groups of the rows so far that have not been returned."""

    def __init__(self, aggregation: Aggregation) -> None:
        self.chunk_rows = CHUNK_ROWS
        self.returned = False
        self._keys = aggregation.keys
        self._aggregates = aggregation.aggregates
        self._result = aggregation.result
        self._kept: list[pa.Table] = []
        self._merging_helps = True
        self._bounds = [0] * len(self._aggregates)
        self._helps = True
        self._is_first = True

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add rows; returns the groups that are not kept."""
        rows = self._evaluated(batch)
        bounds = [a + b for a, b in zip(self._bounds, rows.bounds)]
        if self._helps and not self._are_exact(bounds):
            # Spark finds overflows of intermediate sums, too, so that from here on it must add up the rows themselves.
            yield from self._stop()
        if self._is_first and self._are_nearly_unique(rows):
            yield from self._stop()
        self._is_first = False
        if not self._helps:
            yield from self._returned(pa.table([*rows.keys, *self._of_each_row(rows)], self._names()))
            return
        groups = self._grouped(rows)
        if not self._fit(groups, rows.bounds):
            yield from self._add_less(batch)
            return
        self._bounds = bounds
        self._kept.append(groups)
        if not self._merging_helps:
            yield from self.rest()
        elif sum(len(each) for each in self._kept[1:]) >= len(self._kept[0]):
            yield from self._merge()
        if self._keys and rows.count >= _SMALL_CHUNK and groups.num_rows > _MOST_GROUPS * rows.count:
            yield from self._stop()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The groups that were kept."""
        yield from self._merge()
        for groups in self._kept:
            yield from self._returned(groups)
        self._kept = []

    def _stop(self) -> Iterator[pa.RecordBatch]:
        self._helps, self.chunk_rows = False, 1
        yield from self.rest()

    def _add_less(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add rows whose sums do not fit in the type of partial sums, in smaller chunks."""
        if batch.num_rows <= _SMALL_CHUNK:
            yield from self._stop()
            yield from self.add(batch)
            return
        half = batch.num_rows // 2
        self.chunk_rows = min(self.chunk_rows, half)
        yield from self.add(batch.slice(0, half))
        yield from self.add(batch.slice(half))

    def _are_nearly_unique(self, rows: _Rows) -> bool:
        if not self._keys or rows.count < 2 * _SAMPLE_ROWS:
            return False
        sample = [key.slice(0, _SAMPLE_ROWS) for key in rows.keys]
        names = [f"k{i}" for i in range(len(sample))]
        return bool(pa.table(sample, names).group_by(names, use_threads=False).aggregate([]).num_rows > _SAMPLE_ROWS - _FEWEST_REPEATS)

    def _merge(self) -> Iterator[pa.RecordBatch]:
        """Merge the groups that are kept, or return them: if they are too many, if their sums do not fit, or if few keys come again."""
        if len(self._kept) < 2:
            return
        apart = pa.concat_tables(self._kept)
        functions = [(f"a{i}", "sum" if a.function == "count" else a.function) for i, a in enumerate(self._aggregates)]
        merged = self._aggregated(apart, functions)
        if not self._fit(merged, self._bounds):
            kept, self._kept = self._kept, []
            for groups in kept:
                yield from self._returned(groups)
        elif len(merged) > _MOST_GROUPS * len(apart) or merged.nbytes > MAX_GROUP_BYTES:
            self._merging_helps = len(merged) <= _MOST_GROUPS * len(apart)
            self._kept = []
            yield from self._returned(merged)
        else:
            self._kept = [merged]

    def _evaluated(self, batch: pa.RecordBatch) -> _Rows:
        arguments, bounds = [], []
        for aggregate, spent in zip(self._aggregates, self._bounds):
            argument, bound = self._argument(aggregate, batch, spent)
            arguments.append(argument)
            bounds.append(bound)
        return _Rows(batch.num_rows, [raw_values(key, batch) for key in self._keys], arguments, bounds)

    def _argument(self, aggregate: Aggregate, batch: pa.RecordBatch, spent: int) -> tuple[pa.Array | None, int]:
        """The argument for each row, and the bound on sums of it."""
        if aggregate.argument is None:
            return None, 0
        if aggregate.function != "sum":
            found = values(aggregate.argument, batch)
            if aggregate.function == "count" and pa.types.is_nested(found.type):
                return pc.if_else(found.is_valid(), True, pa.scalar(None, pa.bool_())), 0
            return found, 0
        if isinstance(aggregate.argument, Column):
            found = raw_values(aggregate.argument, batch)
            if pa.types.is_floating(found.type):
                return found.cast(pa.float64()), 0
        number = numbers(aggregate.argument, batch)
        if spent + number.most * batch.num_rows > _limit(number.values.type):
            number = number.tightened()
        return number.values, number.most * batch.num_rows

    def _are_exact(self, bounds: list[int]) -> bool:
        """Whether no sum can overflow, in whatever order values are added."""
        types = self._result.types[len(self._keys) :]
        return all(bound <= _limit(t) for bound, t in zip(bounds, types))

    def _fit(self, groups: pa.Table, bounds: list[int]) -> bool:
        """Whether the sums of decimals have no more digits than their type."""
        for i, (bound, aggregate) in enumerate(zip(bounds, self._aggregates)):
            t = self._result.field(len(self._keys) + i).type
            if aggregate.function == "sum" and pa.types.is_decimal(t):
                most = 10**t.precision - 1
                if bound > most and largest(groups.column(f"a{i}")) > most:
                    return False
        return True

    def _grouped(self, rows: _Rows) -> pa.Table:
        columns = {f"k{i}": key for i, key in enumerate(rows.keys)}
        functions: list[tuple[str | list[str], str]] = []
        for i, (aggregate, argument) in enumerate(zip(self._aggregates, rows.arguments)):
            if argument is None:
                functions.append(([], "count_all"))
            else:
                columns[f"v{i}"] = argument
                functions.append((f"v{i}", aggregate.function))
        # Without any column, a table would lose its number of rows.
        return self._aggregated(pa.table(columns or {"v": pa.nulls(rows.count)}), functions)

    def _aggregated(self, table: pa.Table, functions: Sequence[tuple[str | list[str], str]]) -> pa.Table:
        keys = [f"k{i}" for i in range(len(self._keys))]
        return table.group_by(keys, use_threads=False).aggregate(functions).rename_columns(self._names())

    def _names(self) -> list[str]:
        return [f"k{i}" for i in range(len(self._keys))] + [f"a{i}" for i in range(len(self._aggregates))]

    def _of_each_row(self, rows: _Rows) -> Iterator[pa.Array]:
        """The aggregates of groups of one row."""
        for aggregate, argument in zip(self._aggregates, rows.arguments):
            if argument is None:
                yield pa.repeat(pa.scalar(1, pa.int64()), rows.count)
            else:
                yield argument.is_valid().cast(pa.int64()) if aggregate.function == "count" else argument

    def _returned(self, groups: pa.Table) -> Iterator[pa.RecordBatch]:
        columns = [_typed(column, f.type) for column, f in zip(groups.columns, self._result)]
        for batch in pa.Table.from_arrays(columns, schema=self._result).combine_chunks().to_batches(_BATCH_ROWS):
            self.returned = True
            yield batch


def _limit(t: pa.DataType) -> int:
    """The largest sum that Arrow calculates exactly; sums of floating point numbers have no bound."""
    return MOST if pa.types.is_decimal(t) else _MOST_LONG


def _typed(column: pa.ChunkedArray, t: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_decimal(t):
        # All values fit in the type, so that only its precision changes.
        return pa.chunked_array([chunk.view(t) for chunk in column.chunks], t)
    return column.cast(t)
