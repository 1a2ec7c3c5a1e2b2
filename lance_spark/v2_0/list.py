"""List: a column of offsets, one for each list; the items are rows of the child's columns, whose pages have other bounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.arrow.selection import joined
from lance_spark.errors import CorruptFileError
from lance_spark.reading.flat_buffers import offsets_of, validity_of
from lance_spark.reading.pages import Paged
from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import Column, FieldReader, Steps
from lance_spark.v2_0.encoding import Encoding
from lance_spark.v2_0.extents import read_extents


@dataclass(frozen=True)
class List:
    """`offsets` holds the end of each list among the page's `num_items` items, plus `null_adjustment` for a null list."""

    offsets: Encoding
    offset_bits: int
    null_adjustment: int
    num_items: int


@dataclass(frozen=True)
class _ListPage:
    """The selected lists of one page: Arrow offsets into the rows of `items`, and which lists are valid."""

    offsets: np.ndarray
    valid: np.ndarray
    items: FieldReader


class ListReader:
    """Reads a list field. Each page of lists opens a reader for the items of its selected lists."""

    def __init__(
        self,
        t: pa.DataType,
        column: Column,
        pages: list[List],
        spans: Spans,
        num_rows: int,
        open_items: Callable[[Spans, int], FieldReader],
    ) -> None:
        self._type = t
        self._pages = pages
        self._open_items = open_items
        self._first_item = np.cumsum([0] + [page.num_items for page in pages], dtype=object)
        self._lists = Paged(column.ends, spans, num_rows, self._load)

    def _load(self, index: int, spans: Spans) -> Steps[_ListPage]:
        page = self._pages[index]
        extents = yield from read_extents(page.offsets, page.offset_bits, page.null_adjustment, spans)
        if len(extents.content) and extents.content[-1, 1] > page.num_items:
            raise CorruptFileError(f"a list ends at item {extents.content[-1, 1]}, but the page has {page.num_items} items")
        total = self._first_item[-1]
        items = self._open_items(extents.content + int(self._first_item[index]), int(total))
        return _ListPage(offsets_of(extents.lengths, large=True), extents.valid, items)

    def read(self, start: int, stop: int) -> Steps[pa.Array]:
        """The lists of selected rows `start` to `stop`."""
        parts = yield from self._lists.parts(start, stop)
        arrays = []
        for page, first, last in parts:
            array = yield from self._read_part(page, first, last)
            arrays.append(array)
        return joined(arrays or [pa.nulls(0, self._type)])

    def _read_part(self, page: _ListPage, first: int, last: int) -> Steps[pa.Array]:
        offsets = page.offsets[first : last + 1]
        items = yield from page.items.read(int(offsets[0]), int(offsets[-1]))
        offsets = offsets - offsets[0]
        if not pa.types.is_large_list(self._type):
            if offsets[-1] >= 2**31:
                raise CorruptFileError(f"a batch of lists has {offsets[-1]} items, more than 32-bit offsets can address")
            offsets = offsets.astype(np.int32)
        valid = page.valid[first:last]
        return pa.Array.from_buffers(self._type, last - first, [validity_of(valid), pa.py_buffer(offsets)], children=[items])
