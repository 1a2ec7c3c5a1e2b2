"""Reading a field of a 2.1, 2.2 or 2.3 file: one reader for each leaf column, merged batch by batch.

A page's selected rows are decoded at once, when a batch reaches the page; batches are slices of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import pyarrow as pa

from lance_spark.arrow import views
from lance_spark.arrow.selection import joined
from lance_spark.arrow.types import is_bytes
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts import indexed
from lance_spark.layouts import read_blob as blob
from lance_spark.layouts.constant import read as constant
from lance_spark.layouts.full_zip import read as full_zip
from lance_spark.layouts.levels.assemble import Path, merge, paths, pick, row_width
from lance_spark.layouts.mini_block import read as mini_block
from lance_spark.layouts.nodes.page_layouts import Blob, Constant, FullZip, Indexed, Layout, MiniBlock, parse_layout
from lance_spark.layouts.values.to_arrow import BLOB_V1, BLOB_V2, look_up
from lance_spark.reading import spans as sp
from lance_spark.reading.naming import checked, naming
from lance_spark.reading.pages import Paged
from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import Column, FieldReader, Page, Steps, side_by_side
from lance_spark.schema.schema import Field

_ROWS_PER_ITEM = 8
"""A dictionary stays one if it has so many times fewer items than the batch has rows: with each batch, all of its items are handed over."""

T = TypeVar("T")


def open_field(
    field: Field,
    columns: Mapping[int, Column],
    spans: Spans,
    num_rows: int,
    with_dictionaries: bool = False,
    with_views: bool = False,
) -> FieldReader:
    """A reader of the given rows of a field, which may be nested and pruned; `columns` maps the ids of its leaves to their columns.

    Blobs are large_binary in every version. `with_dictionaries` and `with_views`: see `DataFileReader.read`.
    """
    leaves = []
    for path in (found := paths(field)):
        if path[-1].id not in columns:
            raise CorruptFileError(f"the file has no column for field {path[-1].id} ({path[-1].name!r})")
        leaves.append(LeafReader(path, columns[path[-1].id], spans, num_rows, with_dictionaries, with_views))
    return leaves[0] if len(leaves) == 1 and len(found[0]) == 1 else NestedReader(field, leaves)


class LeafReader:
    """Reads one column as an array in which every struct has one child."""

    def __init__(
        self,
        path: Path,
        column: Column,
        spans: Spans,
        num_rows: int,
        with_dictionaries: bool = False,
        with_views: bool = False,
    ) -> None:
        self._path = path
        self._width = row_width(path)
        self._layouts = layouts_of(column)
        self._column = column
        self._type = self._leaf_type()
        # Others are narrow, or decoded as fast as they are read.
        is_wide = is_bytes(self._type) or pa.types.is_decimal(self._type)
        is_plain = len(path) == 1 and not path[0].is_blob
        self._with_dictionaries = with_dictionaries and is_plain and is_wide
        self._as_views = len(path) == 1 and views.can_be_views(self._value_type()) and views.available()
        self._with_views = with_views and self._as_views
        self._pages = Paged(self._ends(), spans, num_rows, self._load)

    def _ends(self) -> Sequence[int]:
        """The number of rows before the end of each page."""
        if self._width == 1:
            return self._column.ends
        for page in self._column.pages:
            if page.num_rows % self._width:
                raise CorruptFileError(f"a page of {page.num_rows} items is not a whole number of rows of {self._width} items")
        return [end // self._width for end in self._column.ends]

    def _leaf_type(self) -> pa.DataType:
        if not self._path[-1].is_blob:
            return self._path[-1].type
        return BLOB_V1 if any(isinstance(layout, Blob) for layout in self._layouts) else BLOB_V2

    def _value_type(self) -> pa.DataType:
        """The type of what is read: that of the values of blobs, unless their descriptors are read."""
        is_loaded = self._path[-1].is_blob and not self._path[-1].descriptors
        return pa.large_binary() if is_loaded else self._type

    def read(self, start: int, stop: int) -> Steps[pa.Array]:
        """The values of selected rows `start` to `stop`."""
        parts = yield from self._named(self._pages.parts(start, stop))
        if self._with_dictionaries and len(parts) == 1:
            ((page, a, b),) = parts
            if pa.types.is_dictionary(page.type) and len(page.dictionary) * _ROWS_PER_ITEM <= b - a:
                return page.slice(a, b - a)
        arrays = []
        for page, first, last in parts:
            count = last - first
            own = page if count == len(page) else page.slice(first, count)
            arrays.append(self._looked_up(own))
        if self._path[-1].is_blob:
            array = yield from blob.load(self._path, joined(arrays), self._as_views)
        else:
            array = joined(self._alike(arrays))
        return self._copied(array) if views.are_views(array) and not self._with_views else array

    def _alike(self, arrays: Sequence[pa.Array]) -> Sequence[pa.Array]:
        """Arrays of pages of which all have views, or none."""
        viewed = [views.are_views(array) for array in arrays]
        if all(viewed) or not any(viewed):
            return arrays
        return [self._copied(array) if is_viewed else array for array, is_viewed in zip(arrays, viewed)]

    def _copied(self, array: pa.Array) -> pa.Array:
        try:
            return views.copied(array, self._value_type())
        except pa.ArrowInvalid as e:
            raise UnsupportedFeatureError(f"a page with {array.nbytes} bytes of values of {self._type} is not supported") from e

    def _named(self, steps: Steps[T]) -> Steps[T]:
        """Run `steps`; errors name the column if it is nested, since the file reader names the top-level field only."""
        return naming(".".join(field.name for field in self._path), steps) if len(self._path) > 1 else steps

    def _looked_up(self, array: pa.Array) -> pa.Array:
        if pa.types.is_dictionary(array.type) and not pa.types.is_dictionary(self._type):
            return look_up(array.dictionary, array.indices)
        return array

    def _load(self, index: int, spans: Spans) -> Steps[pa.Array]:
        page, layout = self._column.pages[index], self._layouts[index]
        # Chunks may end mid-row if rows have several items, so such pages are read whole.
        wanted = spans if self._width == 1 else sp.all_rows(page.num_rows)
        array, rows_read = yield from read_page(layout, page, self._path, self._type, wanted, self._as_views)
        if rows_read is spans and len(array) == sp.count(spans):
            return array
        return pick(array, rows_read if self._width == 1 else rows_read // self._width, spans)


class NestedReader:
    """Reads a field with children from its leaves."""

    def __init__(self, field: Field, leaves: list[LeafReader]) -> None:
        self._field = field
        self._leaves = leaves

    def read(self, start: int, stop: int) -> Steps[pa.Array]:
        """The values of selected rows `start` to `stop`."""
        parts = yield from side_by_side([leaf.read(start, stop) for leaf in self._leaves])
        return merge(self._field, parts)


def layouts_of(column: Column) -> list[Layout]:
    """The layouts of the column's pages, which stay in memory with it."""
    if len(column.parsed) < len(column.pages):
        column.parsed[:] = [
            checked(f"page {number}", lambda page=page: parse_layout(page.encoding_type, page.encoding))  # type: ignore[misc]
            for number, page in enumerate(column.pages)
        ]
    return column.parsed


def read_page(layout: Layout, page: Page, path: Path, t: pa.DataType, rows: Spans, as_views: bool = False) -> Steps[tuple[pa.Array, Spans]]:
    """The column `path`, whose leaf is of type `t`: an array with the page's rows `rows` at least, and which rows it has.

    `as_views`: it may be an array of `arrow.views`, of these rows only.
    """
    if isinstance(layout, MiniBlock):
        return (yield from mini_block.read(layout, page, path, t, rows))
    if isinstance(layout, FullZip):
        return (yield from full_zip.read(layout, page, path, t, rows, as_views))
    if isinstance(layout, Indexed):
        return (yield from indexed.read(layout, page, path, t))
    if isinstance(layout, Constant):
        return (yield from constant.read(layout, page, path, t, rows))
    descriptors, rows_read = yield from read_page(layout.inner, page, path[-1:], t, rows)
    return blob.locate(layout, descriptors, path), rows_read
