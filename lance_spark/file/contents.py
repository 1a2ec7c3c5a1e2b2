"""The contents of a data file without values: the pages of each column, their sizes and encodings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.errors import CorruptFileError
from lance_spark.file.footer import FOOTER, Footer, read_columns
from lance_spark.file.legacy import LegacyFile
from lance_spark.file.page_encoding import page_encoding
from lance_spark.reading.flat_buffers import bit_width
from lance_spark.reading.steps import Column, Steps
from lance_spark.schema.schema import Field

_OFFSET = 8  # bytes of an offset of a string in a legacy file
_ENTRY = 16  # bytes of an entry of an offset table


@dataclass(frozen=True)
class StoredPage:
    """A page of `num_rows` rows (items, below a list in a file before 2.1) in `size` bytes."""

    num_rows: int
    size: int
    encoding: str


@dataclass(frozen=True)
class Contents:
    """The pages of a file by column number, in a legacy file by field id, and the bytes of its metadata."""

    pages: Mapping[int, tuple[StoredPage, ...]]
    metadata_size: int


def read_contents(layout: Footer | LegacyFile) -> Steps[Contents]:
    """The contents of a file; for a legacy file it also reads two offsets of each page of strings."""
    if isinstance(layout, LegacyFile):
        return (yield from _legacy_contents(layout))
    columns = yield from read_columns(layout, range(layout.num_columns))
    tables = len(layout.column_metadata) + len(layout.global_buffers)
    messages = int(sum(np.diff(ranges, axis=1).sum() for ranges in (layout.column_metadata, layout.global_buffers)))
    return Contents({i: _pages(column) for i, column in enumerate(columns)}, messages + tables * _ENTRY + FOOTER.size)


def _pages(column: Column) -> tuple[StoredPage, ...]:
    """The pages of a column; a shared buffer counts for the first page."""
    own = _size(column.buffers)
    pages = []
    for page in column.pages:
        pages.append(StoredPage(page.num_rows, _size(page.buffers) + own, page_encoding(page, column)))
        own = 0
    return tuple(pages)


def _size(buffers: tuple[ByteRange, ...]) -> int:
    return sum(b.stop - b.start for b in buffers)


def _legacy_contents(file: LegacyFile) -> Steps[Contents]:
    pages: dict[int, tuple[StoredPage, ...]] = {}
    for f in file.schema.walk():
        lengths = file.pages.entries[f.id - file.pages.first_field, :, 1]
        kind = f.type
        # Every value takes at least one bit.
        if ((lengths < 0) | (lengths > 8 * file.pages.size)).any():
            raise CorruptFileError(f"pages of {lengths.tolist()} values of field {f.id} do not fit a file of {file.pages.size} bytes")
        if pa.types.is_dictionary(kind):
            pages[f.id] = (*_plain(lengths, bit_width(kind.index_type), "plain indices"), StoredPage(0, *(yield from _dictionary(f, file))))
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            pages[f.id] = _plain(lengths, 64 if pa.types.is_large_list(kind) else 32, "plain offsets")
        elif bit_width(kind) is not None:
            pages[f.id] = _plain(lengths, bit_width(kind), "plain")
        elif not pa.types.is_struct(kind) and not pa.types.is_null(kind):
            sizes = yield from _string_sizes(file.pages.entries[f.id - file.pages.first_field], file.pages.size)
            pages[f.id] = tuple(StoredPage(n, size, "var-binary") for n, size in zip(lengths.tolist(), sizes))
    values = sum(page.size for column in pages.values() for page in column)
    return Contents(pages, max(0, file.pages.size - values))


def _plain(lengths: np.ndarray, bits: int | None, encoding: str) -> tuple[StoredPage, ...]:
    assert bits is not None
    return tuple(StoredPage(n, (n * bits + 7) // 8, encoding) for n in lengths.tolist())


def _dictionary(field: Field, file: LegacyFile) -> Steps[tuple[int, str]]:
    """The size of the values of a field of dictionary type, which are stored once per file."""
    place, count = file.pages.dictionary(field.id)
    bits = bit_width(field.type.value_type)
    if bits is not None:
        return (count * bits + 7) // 8, "plain dictionary"
    (size,) = yield from _string_sizes(np.array([[place.start, count]]), file.pages.size)
    return size, "var-binary dictionary"


def _string_sizes(entries: np.ndarray, file_size: int) -> Steps[list[int]]:
    """The sizes of pages of strings: their offsets, which are at the pages' positions, and the bytes from the first to the last."""
    ends = [(start, start + length * _OFFSET) for start, length in entries.tolist()]
    if any(not 0 <= start <= last <= file_size - _OFFSET for start, last in ends):
        raise CorruptFileError("a page of strings is not within the file")
    answers = yield [ByteRange(at, at + _OFFSET) for pair in ends for at in pair]
    offsets = np.concatenate([*answers, np.empty(0, np.uint8)]).view("<i8").reshape(-1, 2)
    sizes = offsets[:, 1] - offsets[:, 0]
    if ((offsets < 0) | (offsets > file_size)).any() or (sizes < 0).any():
        raise CorruptFileError("a page of strings has decreasing offsets")
    return [int(size) + last - start + _OFFSET for size, (start, last) in zip(sizes, ends)]
