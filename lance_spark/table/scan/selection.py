"""The rows of fragments that satisfy the predicate of a scan, with late materialisation.

For a window of rows, the predicate's columns are read and evaluated, then the other columns of the matching rows, which are usually few;
readers take single rows out of pages without decoding the rest. The driver skips fragments by the bounds of their pages before it cuts
tasks: manifests have no statistics, so that it reads the metadata of files, of fragments that are large enough for this to be worth it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.arrow.selection import keep, keep_rows
from lance_spark.errors import CorruptFileError, InvalidOptionError, StorageError, UnsupportedFeatureError
from lance_spark.kernels.bits import ones
from lance_spark.metadata.bitmaps import offsets_of
from lance_spark.metadata.row_columns import ROW_COLUMN_IDS
from lance_spark.predicate import Predicate, evaluate
from lance_spark.predicate.bounds import Bounds, may_hold
from lance_spark.predicate.tree import And, Column, walk
from lance_spark.reading import spans
from lance_spark.reading.steps import Rows
from lance_spark.schema.schema import Field, Schema, quoted
from lance_spark.table.scan.fragment_reader import FragmentReader, side_by_side
from lance_spark.table.scan.parts import Part, Parts
from lance_spark.table.scan.projection import Projection
from lance_spark.table.versions.snapshot import Snapshot

WINDOW_ROWS = 1 << 20
"""Rows whose predicate is evaluated before the rest of them is read: as many as a fragment has in most tables."""

_EVALUATED_ROWS = 128 << 10
"""Rows whose predicate is evaluated at once, if their columns are not too wide (see `DataFileReader.read`): a batch has costs of its own,
and a megabyte of a column stays in the caches of a core."""
_COUNTED_ROWS = 1 << 12
"""The rows from which on a kernel finds the true ones: with fewer, numpy is done before the kernel is loaded."""
_MOST_FRAGMENTS = 1 << 10
"""The driver opens at most so many files, in half a second on a local disk. Tasks look at the bounds of others."""
_LEAST_BYTES = 4 << 20
"""The bytes whose reading takes ten times as long as that of the metadata of their file. Smaller fragments are joined in few tasks."""
_THREADS = 16


class Reader(Protocol):
    """Reads rows of one fragment, or of several as if they were one; see `FragmentReader`."""

    def read(self, positions: Rows, columns: Projection, batch_rows: int) -> Iterator[pa.RecordBatch]: ...
    def prune_pages(
        self, positions: range, field: Field, may_match: Callable[[pa.Array | Bounds], bool], only_bounds: bool = False
    ) -> spans.Spans | None: ...


def rows_of(part: Part, reader: FragmentReader) -> Rows:
    """The positions of the rows of a part among the rows that are not deleted."""
    return range(part.start, part.stop) if part.found is None else reader.positions_of(offsets_of(part.found))


def true_at(selected: pa.BooleanArray) -> np.ndarray:
    """The numbers of the rows for which the predicate is true, not false or null."""
    known = pc.fill_null(selected, False) if selected.null_count else selected
    count = len(known)
    if count < _COUNTED_ROWS or known.offset % 8:
        return np.flatnonzero(known.to_numpy(zero_copy_only=False))
    words = np.zeros(-(-count // 64), np.uint64)
    bits = np.frombuffer(known.buffers()[1], np.uint8, -(-count // 8), known.offset // 8)
    words.view(np.uint8)[: len(bits)] = bits
    if count % 64:
        words[-1] &= np.uint64((1 << count % 64) - 1)
    return ones(words, known.true_count)


class Selection:
    """The rows of fragments that satisfy `predicate`. What all fragments have in common is computed once.

    `fields` are those that are read, and `given` those that are returned. A reader of few rows, `enough`, does not wait for a full window.
    """

    def __init__(self, predicate: Predicate, fields: Schema, given: Schema, batch_rows: int, enough: int = WINDOW_ROWS) -> None:
        self._predicate, self._batch_rows, self._enough = predicate, batch_rows, enough
        self._fields, self._returned = fields, given

    @property
    def at_once_rows(self) -> int:
        """The most rows whose predicate is evaluated at once. Who needs few rows does not wait for many."""
        return self._batch_rows if self._enough < WINDOW_ROWS else max(self._batch_rows, _EVALUATED_ROWS)

    @cached_property
    def all(self) -> Projection:
        """All fields that are read."""
        return Projection.of(self._fields)

    @cached_property
    def _given(self) -> pa.Schema:
        return self._returned.to_arrow()

    @cached_property
    def _divided(self) -> tuple[Projection, Projection]:
        first, rest = _divided(self._predicate, self._fields, self._returned)
        return Projection.of(first), Projection.of(rest)

    @property
    def _first(self) -> Projection:
        return self._divided[0]

    @property
    def _rest(self) -> Projection:
        return self._divided[1]

    @cached_property
    def _kept(self) -> list[int]:
        """The places of the first fields that are returned."""
        returned = set(self._returned.fields)
        # A batch without columns would lose its number of rows.
        return [i for i, f in enumerate(self._first.schema.fields) if f in returned or not self._returned.fields]

    @cached_property
    def _kept_schema(self) -> pa.Schema:
        return pa.schema([self._first.target.field(i) for i in self._kept])

    @cached_property
    def _conditions(self) -> list[tuple[Field, Callable[[pa.Array | Bounds], bool]]]:
        return list(conditions_on_columns(self._predicate, self._first.schema))

    def matching(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch with all fields that satisfy the predicate."""
        selected = evaluate(self._predicate, batch)
        return batch if selected.true_count == batch.num_rows else keep_rows(batch, selected)

    def rows(self, rows: Rows, reader: Reader) -> Iterator[pa.RecordBatch]:
        """The rows, among `rows`, that satisfy the predicate, with the fields that are returned."""
        known: list[pa.RecordBatch] = []
        found: list[np.ndarray] = []
        positions = self._pruned(rows, reader) if isinstance(rows, range) else rows
        start = at = 0
        for batch in reader.read(positions, self._first, self.at_once_rows):
            selected = evaluate(self._predicate, batch)
            if count := selected.true_count:
                if self._kept:
                    known.append(self._known(batch, selected, count))
                if self._rest.schema.fields:
                    chosen = true_at(selected)
                    found.append(chosen + (positions[0] + at) if isinstance(positions, range) else positions[at + chosen])
            at += batch.num_rows
            if not self._rest.schema.fields:
                yield from (part for selected_rows in known for part in _cut(selected_rows, self._batch_rows))
                known.clear()
            elif found and (at == len(positions) or at - start >= WINDOW_ROWS or sum(map(len, found)) >= self._enough):
                yield from self._together(known, reader.read(np.concatenate(found), self._rest, self._batch_rows))
                known, found, start = [], [], at

    def _known(self, batch: pa.RecordBatch, selected: pa.BooleanArray, count: int) -> pa.RecordBatch:
        """The `count` selected rows of a batch, with the fields that are returned."""
        columns = [batch.column(i) for i in self._kept]
        if count < batch.num_rows:
            columns = [keep(column, selected) for column in columns]
        return pa.RecordBatch.from_arrays(columns, schema=self._kept_schema)

    def _pruned(self, rows: range, reader: Reader) -> Rows:
        """The rows, without pages whose statistics show that no value satisfies the predicate."""
        left = left_by_pages(rows, reader, self._conditions)
        if left is None:
            return rows
        return range(left[0, 0], left[0, 1]) if len(left) == 1 else spans.rows(left)

    def _together(self, known: list[pa.RecordBatch], rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The returned columns of the same rows: from `rest` if they are there, the others from `known`."""
        if not known:
            yield from rest
            return
        names = [*known[0].schema.names, *self._rest.target.names]
        for parts in side_by_side([(batch.columns for batch in concatenated(known)), (batch.columns for batch in rest)]):
            columns = dict(zip(names, [column for part in parts for column in part]))
            yield pa.RecordBatch.from_arrays([columns[name] for name in self._given.names], schema=self._given)


def _cut(batch: pa.RecordBatch, most: int) -> Iterator[pa.RecordBatch]:
    """The rows in batches of at most so many."""
    return (batch.slice(start, most) for start in range(0, batch.num_rows, most))


def concatenated(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """All rows in one batch, unless text would be too large for one array."""
    return batches if len(batches) < 2 else pa.Table.from_batches(batches).combine_chunks().to_batches()


def _divided(predicate: Predicate, fields: Schema, given: Schema) -> tuple[Schema, Schema]:
    """The fields that the predicate needs, and the other returned fields. A struct may be in both, with different children."""
    # A batch without columns would lose its number of rows.
    first = fields.select(predicate.columns) if predicate.columns else Schema(given.fields)
    known = set(first.fields)
    return first, Schema(tuple(f for f in given.fields if f not in known))


Condition = tuple[Field, Callable[[pa.Array | Bounds], bool]]


def left_by_pages(rows: range, reader: Reader, conditions: Sequence[Condition], only_bounds: bool = False) -> spans.Spans | None:
    """The rows, without pages whose statistics show that no value satisfies a condition; None if there are no statistics."""
    left = None
    for field, may_match in conditions:
        pruned = reader.prune_pages(rows, field, may_match, only_bounds)
        if pruned is not None:
            left = pruned if left is None else spans.both(left, pruned)
        if left is not None and not len(left):
            break
    return left


def conditions_on_columns(predicate: Predicate, first: Schema) -> Iterator[Condition]:
    """The predicate's conditions on a single column at the top level: its field, and whether some values may satisfy the condition."""
    root = predicate.root
    for condition in root.operands if isinstance(root, And) else (root,):
        paths = {node.path for node in walk(condition) if isinstance(node, Column)}
        field = next((f for f in first.fields if (f.name,) in paths), None)
        if len(paths) != 1 or field is None or field.id in ROW_COLUMN_IDS:
            continue
        if first.select([quoted([field.name])]).to_arrow().field(0).type == field.type:
            yield field, partial(_may_match, field.name, Predicate(condition, predicate.text))


def _may_match(name: str, predicate: Predicate, values: pa.Array | Bounds) -> bool:
    try:
        if isinstance(values, Bounds):
            return may_hold(predicate.root, name, values)
        return bool(pc.any(evaluate(predicate, pa.record_batch({name: values}))).as_py())
    except InvalidOptionError:
        return True  # only the rows show whether one has a value that it fails on


def with_matching_pages(snapshot: Snapshot, predicate: Predicate, fields: Schema, parts: Parts, size: float) -> Parts:
    """The parts, whole fragments, that have a page with a row that may satisfy the predicate. `size` are the bytes to be read of all.

    A fragment whose file cannot be opened stays: its task reports this.
    """
    if not predicate.columns or not 1 < len(parts) <= _MOST_FRAGMENTS or size < _LEAST_BYTES * len(parts):
        return parts
    conditions = list(conditions_on_columns(predicate, fields.select(predicate.columns)))
    if not conditions or _left(snapshot, parts[0], conditions) is None:
        return parts  # other writers have no bounds
    with ThreadPoolExecutor(_THREADS) as threads:
        left = threads.map(lambda part: _left(snapshot, part, conditions), parts)
        return parts.chosen(np.flatnonzero([is_left is not False for is_left in left]))


def _left(snapshot: Snapshot, part: Part, conditions: Sequence[Condition]) -> bool | None:
    """Whether any page of the part may have a match; None if this is not known."""
    reader = FragmentReader(part.fragment, snapshot.locations, snapshot.manifest.has_stable_row_ids)
    try:
        left = left_by_pages(range(part.start, part.stop), reader, conditions, only_bounds=True)
    except (CorruptFileError, UnsupportedFeatureError, StorageError, FileNotFoundError):
        return None
    return None if left is None else bool(len(left))
