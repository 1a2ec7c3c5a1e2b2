"""Sorting of rows before they are written, so that filters on the columns of the order read few of them.

A task sorts what it writes in portions that fit in memory. To sort across tasks is the engine's work: it gives each task a range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_spark.errors import InvalidOptionError, SchemaMismatchError
from lance_spark.index.value_types import TAKES
from lance_spark.schema.schema import Field, Schema

Path = tuple[Field, ...]
"""A column, or a field of structs with all that are around it."""
PORTION_BYTES = 128 << 20
"""Bytes of rows in memory that are sorted at once, as many as a task of a scan reads at most. The sorted rows take as many again."""
_BATCH_ROWS = 32 << 10


def has_order(field: Field) -> bool:
    """Whether rows can be sorted by the field: by numbers, times, texts and bytes."""
    t = field.to_arrow().type
    return field.is_leaf and not field.is_blob and TAKES["BTREE"](t.value_type if types.is_dictionary(t) else t)


def column_at(rows: pa.RecordBatch, path: Sequence[Field]) -> pa.Array:
    """The values of a column, or of a field of structs, of `rows`."""
    column = rows.column(path[0].name)
    return pc.struct_field(column, [f.name for f in path[1:]]) if len(path) > 1 else column


def check_order(schema: Schema, columns: Sequence[str]) -> None:
    """Raise InvalidOptionError unless rows of the schema can be sorted by these columns."""
    for name in columns:
        try:
            field = schema.resolve(name)[-1]
        except SchemaMismatchError as e:
            raise InvalidOptionError(f"write_order: {e}") from None
        if not has_order(field):
            raise InvalidOptionError(
                f"write_order: rows cannot be sorted by column {name!r} of type {field.logical_type}; use numbers, times, texts or bytes"
            )


def order_of(schema: Schema, columns: Sequence[str]) -> tuple[Path, ...]:
    """The paths of the columns that files of this schema have. A column that the rows lack is null in all of them."""
    paths = []
    for name in columns:
        try:
            paths.append(schema.resolve(name))
        except SchemaMismatchError:
            continue
    return tuple(paths)


class Portions:
    """Sorts rows in portions by the columns `order`: ascending, nulls first. Rows of equal values, and sorted portions, stay."""

    def __init__(self, order: Sequence[Path]) -> None:
        self._order = order
        self._waiting: list[pa.RecordBatch] = []
        self._size = 0

    def add(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add rows, and yield those of a portion that is complete."""
        if not self._order:
            yield batch
            return
        self._waiting.append(batch)
        self._size += batch.nbytes
        if self._size >= PORTION_BYTES:
            yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """The rows that wait."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        yield from _sorted(waiting, self._order)


def _sorted(waiting: list[pa.RecordBatch], order: Sequence[Path]) -> Iterator[pa.RecordBatch]:
    if not waiting:
        return
    for rows in pa.Table.from_batches(waiting).combine_chunks().to_batches():
        places = _places([column_at(rows, path) for path in order])
        if (np.diff(places) == 1).all():
            yield rows
            continue
        for first in range(0, len(places), _BATCH_ROWS):
            yield rows.take(pa.array(places[first : first + _BATCH_ROWS]))


def _places(columns: Sequence[pa.Array]) -> np.ndarray:
    """The numbers of the rows in order: sorted by the last column first, since equal values stay as they are."""
    from lance_spark.index.order import sort_order  # loads the compiled kernels, which the driver does not need

    places = np.arange(len(columns[0]))
    for column in reversed(columns):
        values = column.dictionary_decode() if types.is_dictionary(column.type) else column
        places = places[sort_order(values.take(pa.array(places)))]
    return places
