"""Reading a field of a legacy file: the selected rows of each batch at once, through structs and lists to the values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import joined
from lance_spark.arrow.types import is_list
from lance_spark.errors import CorruptFileError
from lance_spark.reading import spans as sp
from lance_spark.reading.flat_buffers import GAP, bit_width, dictionary_array, offsets_of, read_bits
from lance_spark.reading.pages import Paged
from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import FieldReader, Rows, Steps, side_by_side
from lance_spark.schema.schema import Field
from lance_spark.v0_1.page_table import PageTable
from lance_spark.v0_1.values import read_plain, read_strings


def open_field(field: Field, pages: PageTable, rows: Rows) -> FieldReader:
    """A reader of the given rows of a field, which may be nested and pruned."""
    return BatchReader(field, pages, sp.from_rows(rows))


class BatchReader:
    """Reads a top-level field, one batch of the file at a time."""

    def __init__(self, field: Field, pages: PageTable, spans: Spans) -> None:
        self._field = field
        self._pages = pages
        self._dictionaries: dict[int, pa.Array] = {}
        self._batches = Paged((pages.bounds[1:] - pages.bounds[0]).tolist(), spans, pages.num_rows, self._load)

    def _load(self, batch: int, spans: Spans) -> Steps[pa.Array]:
        return _read(self._field, _Source(self._pages, self._dictionaries), batch, spans)

    def read(self, start: int, stop: int) -> Steps[pa.Array]:
        """The values of selected rows `start` to `stop`."""
        missing = [f for f in self._field.walk() if pa.types.is_dictionary(f.type) and f.id not in self._dictionaries]
        values = yield from side_by_side([_read_dictionary(f, self._pages) for f in missing])
        self._dictionaries.update(zip((f.id for f in missing), values))
        parts = yield from self._batches.parts(start, stop)
        arrays = [array.slice(first, last - first) for array, first, last in parts]
        return joined(arrays or [pa.nulls(0, self._field.type)])


@dataclass(frozen=True)
class _Source:
    """The page table, and the values of the fields of dictionary type by id."""

    pages: PageTable
    dictionaries: Mapping[int, pa.Array]


def _read(field: Field, source: _Source, batch: int, spans: Spans) -> Steps[pa.Array]:
    """The values of the rows `spans` of a batch, or of the items `spans` below a list."""
    t = field.type
    if pa.types.is_struct(t):
        children = yield from side_by_side([_read(child, source, batch, spans) for child in field.children])
        return pa.Array.from_buffers(t, sp.count(spans), [None], children=children)
    if is_list(t):
        return (yield from _read_lists(field, source, batch, spans))
    if pa.types.is_null(t):
        return pa.nulls(sp.count(spans))
    if pa.types.is_dictionary(t):
        indices = yield from read_plain(source.pages.page(field.id, batch), spans, t.index_type)
        return dictionary_array(t, indices, source.dictionaries[field.id])
    page = source.pages.page(field.id, batch)
    if bit_width(t) is not None:
        return (yield from read_plain(page, spans, t))
    return (yield from read_strings(page, spans, t, field.nullable))


def _read_lists(field: Field, source: _Source, batch: int, spans: Spans) -> Steps[pa.Array]:
    """Lists: the offsets of the batch's items, one more than rows. Null lists were written as empty lists."""
    large = pa.types.is_large_list(field.type)
    bits = 64 if large else 32
    wider = sp.merged(sp.wider(spans, 0, 1), GAP * 8 // bits)
    data = yield from read_bits(source.pages.page(field.id, batch), bits, wider)
    offsets = np.frombuffer(data.tobytes(), dtype="<i8" if large else "<i4").astype(np.int64, copy=False)
    if (np.diff(offsets) < 0).any() or (len(offsets) and offsets[0] < 0):
        raise CorruptFileError("lists have decreasing offsets")
    # Every item takes at least a bit, except of null type, whose lists are unlimited too.
    if len(offsets) and offsets[-1] > 8 * source.pages.size:
        raise CorruptFileError(f"{offsets[-1]} list items do not fit a file of {source.pages.size} bytes")
    at = sp.positions(spans, wider)
    ends = np.cumsum(spans[:, 1] - spans[:, 0])
    first, last = at[ends - (spans[:, 1] - spans[:, 0])], at[ends - 1] + 1
    content = sp.merged(np.stack([offsets[first], offsets[last]], axis=1), 0)
    items = yield from _read(field.children[0], source, batch, content)
    arrow_offsets = offsets_of(offsets[at + 1] - offsets[at], large)
    return pa.Array.from_buffers(field.type, len(at), [None, pa.py_buffer(arrow_offsets)], children=[items])


def _read_dictionary(field: Field, pages: PageTable) -> Steps[pa.Array]:
    """The values of a field of dictionary type, which are stored once per file."""
    where, count = pages.dictionary(field.id)
    t = field.type.value_type
    if bit_width(t) is not None:
        return (yield from read_plain(where, sp.all_rows(count), t))
    return (yield from read_strings(where, sp.all_rows(count), t, nullable=True))
