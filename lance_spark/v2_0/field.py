"""Reading a field of a storage 2.0 file: readers for leaves, structs and lists, combined like the field."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from lance_spark._proto import encodings_v2_0_pb2 as pb
from lance_spark.arrow.selection import joined, take
from lance_spark.buffers.messages import parse_message
from lance_spark.errors import CorruptFileError
from lance_spark.reading import spans as sp
from lance_spark.reading.flat_buffers import GAP
from lance_spark.reading.pages import Paged
from lance_spark.reading.spans import Spans
from lance_spark.reading.steps import Column, FieldReader, Page, Steps, side_by_side
from lance_spark.schema.schema import Field
from lance_spark.v2_0.blob import DESCRIPTORS, BlobReader
from lance_spark.v2_0.early_strings import EarlyStringsReader, list_type
from lance_spark.v2_0.list import List, ListReader
from lance_spark.v2_0.nullable import AllNulls
from lance_spark.v2_0.tree import decode_page

_EARLY_STRINGS = ("string", "binary", "large_string", "large_binary")


def early_bytes_columns(fields: Sequence[Field], columns: Mapping[int, int], num_columns: int) -> dict[int, int]:
    """The columns that have the bytes of strings if these are in files of early 2024: each after the column of its field, by ~id."""
    below = [f for field in fields for f in field.walk() if f.logical_type in _EARLY_STRINGS and f.id in columns]
    free = {*range(num_columns)} - {*columns.values()} if below else set()
    return {~f.id: columns[f.id] + 1 for f in below if columns[f.id] + 1 in free}


def open_field(field: Field, columns: Mapping[int, Column], spans: Spans, num_rows: int) -> FieldReader:
    """A reader of the given rows of a field, which may be nested and pruned.

    `columns` maps field ids, of lists and leaves, to their columns; a struct's own column holds nothing. Strings in files of early 2024
    take two columns; the second (the bytes) is under ~id, the complement of the id.
    """
    kind = field.logical_type.split(".")[0]
    if kind == "struct" and not (field.children and field.is_leaf):
        return StructReader(field.type, [open_field(child, columns, spans, num_rows) for child in field.children])
    column = columns.get(field.id)
    if column is None:
        raise CorruptFileError(f"the file has no column for field {field.id} ({field.name!r})")
    if kind in ("list", "large_list"):
        item = field.children[0]
        return _open_lists(field.type, column, spans, num_rows, lambda rows, total: open_field(item, columns, rows, total))
    if ~field.id in columns and _has_lists(column):
        data, t = columns[~field.id], list_type(field.type)
        lists = _open_lists(t, column, spans, num_rows, lambda rows, total: LeafReader(pa.uint8(), data, rows, total))
        return EarlyStringsReader(field.type, lists)
    if _is_blob(column):
        return BlobReader(field.type, LeafReader(DESCRIPTORS, column, spans, num_rows))
    return LeafReader(field.type, column, spans, num_rows)


def _open_lists(t: pa.DataType, column: Column, spans: Spans, num_rows: int, open_items: Callable[[Spans, int], FieldReader]) -> ListReader:
    pages = [_list_page(page, column) for page in column.pages]
    return ListReader(t, column, pages, spans, num_rows, open_items)


def _has_lists(column: Column) -> bool:
    return not column.pages or isinstance(decode_page(column.pages[0], column), List)


def _list_page(page: Page, column: Column) -> List:
    encoding = decode_page(page, column)
    if not isinstance(encoding, List):
        raise CorruptFileError(f"expected pages of lists in a list column, found {type(encoding).__name__}")
    return encoding


def _is_blob(column: Column) -> bool:
    """Whether the column holds descriptors. Zone maps, which are not used, are skipped."""
    message = parse_message(pb.ColumnEncoding, column.encoding, "the column's encoding")
    while message.WhichOneof("column_encoding") == "zone_index":
        message = message.zone_index.inner
    return bool(message.WhichOneof("column_encoding") == "blob")


class LeafReader:
    """Reads a field of one column: decodes all selected rows of a page at once and returns slices."""

    def __init__(self, t: pa.DataType, column: Column, spans: Spans, num_rows: int) -> None:
        self._type = t
        self._column = column
        self._pages = Paged(column.ends, spans, num_rows, self._load)

    def _load(self, index: int, spans: Spans) -> Steps[pa.Array | None]:
        page = self._column.pages[index]
        encoding = decode_page(page, self._column)
        if isinstance(encoding, List):
            raise CorruptFileError(f"found a page of lists in a column of {self._type}")
        if isinstance(encoding, AllNulls):
            return None  # made on demand: no stored bytes limit their number
        size = sum(b.stop - b.start for b in page.buffers)
        wanted = sp.merged(spans, GAP * page.num_rows // max(size, 1))
        array = yield from encoding.read(wanted, self._type)
        if len(array) != sp.count(wanted):
            raise CorruptFileError(f"expected {sp.count(wanted)} values, found {len(array)}")
        return array if len(wanted) == len(spans) else take(array, pa.array(sp.positions(spans, wanted)))

    def read(self, start: int, stop: int) -> Steps[pa.Array]:
        """The values of selected rows `start` to `stop`."""
        parts = yield from self._pages.parts(start, stop)
        arrays = [pa.nulls(b - a, self._type) if page is None else page.slice(a, b - a) for page, a, b in parts]
        return joined(arrays or [pa.nulls(0, self._type)])


class StructReader:
    """Reads a struct, which is never null in this version, from its children."""

    def __init__(self, t: pa.DataType, children: list[FieldReader]) -> None:
        self._type = t
        self._children = children

    def read(self, start: int, stop: int) -> Steps[pa.Array]:
        """The structs of selected rows `start` to `stop`."""
        arrays = yield from side_by_side([child.read(start, stop) for child in self._children])
        return pa.Array.from_buffers(self._type, stop - start, [None], children=arrays)
