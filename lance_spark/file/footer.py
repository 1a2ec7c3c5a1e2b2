"""The end of a 2.x data file: footer, offset tables, file descriptor and column metadata, with every position checked.

Implements "File Layout" of the file format specification (file2.proto). The parts are read as steps, backwards from the last 40 bytes; a
caller with the tail of the file in memory needs few more reads.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from google.protobuf.any_pb2 import Any as AnyMessage

from lance_spark._proto import file2_pb2, file_pb2
from lance_spark.buffers.byte_ranges import ByteRange, Bytes
from lance_spark.buffers.messages import parse_message
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.reading.naming import checked
from lance_spark.reading.steps import Column, Page, Steps
from lance_spark.schema.field_messages import parse_fields
from lance_spark.schema.schema import Schema

FOOTER = struct.Struct("<QQQIIHH4s")
"""Positions of column metadata, of its offset table, of the global buffers' offset table; counts of buffers and columns; version; magic."""

MAGIC = b"LANC"
_ENTRY = 16  # bytes of one entry of an offset table: u64 position, u64 size
_EARLY_SIZE = 48
_SMALL = 4 << 10
"""Encodings of at most so many bytes stay in memory, since pages are alike."""


@dataclass(frozen=True)
class Footer:
    """The positions of the metadata of a 2.x file: int64 arrays of (start, stop), checked to be within the file.

    `early`: the file is of early 2024, when the footer had 48 bytes and columns a different message.
    """

    version: tuple[int, int]
    size: int
    column_metadata: np.ndarray
    global_buffers: np.ndarray
    early: bool

    @property
    def num_columns(self) -> int:
        return len(self.column_metadata)


@dataclass(frozen=True)
class Descriptor:
    """Global buffer 0: the file's schema and its number of rows."""

    schema: Schema
    num_rows: int


def file_version(tail: Bytes) -> tuple[int, int]:
    """The version in the last 8 bytes of a file: u16 major, u16 minor, "LANC". All file versions, including legacy ones, end like this."""
    if len(tail) < 8 or tail[-4:].tobytes() != MAGIC:
        raise CorruptFileError(f"not a Lance file: expected {MAGIC!r} at its end, found {tail[-4:].tobytes()!r}")
    major, minor = struct.unpack("<HH", tail[-8:-4].tobytes())
    return major, minor


def read_footer(size: int) -> Steps[Footer]:
    """The footer and both offset tables of a file of `size` bytes."""
    if size < FOOTER.size:
        raise CorruptFileError(f"expected at least {FOOTER.size} bytes in the file, found {size}")
    (data,) = yield [ByteRange(size - FOOTER.size, size)]
    first, columns_at, buffers_at, num_buffers, num_columns, major, minor, magic = FOOTER.unpack(data.tobytes())
    if magic != MAGIC:
        raise CorruptFileError(f"not a Lance file: expected {MAGIC!r} at its end, found {magic!r}")
    early = buffers_at + num_buffers * _ENTRY + _EARLY_SIZE == size
    if early:
        # The position of the first global buffer was between those of the two tables, so the earlier fields start 8 bytes earlier.
        columns_at = first
    tables = []
    for what, at, count in (("column metadata", columns_at, num_columns), ("global buffers", buffers_at, num_buffers)):
        if at + count * _ENTRY > size - FOOTER.size:
            raise CorruptFileError(f"the offset table of {count} {what} at byte {at} overlaps the footer of the file of {size} bytes")
        tables.append(ByteRange(at, at + count * _ENTRY))
    columns, buffers = yield tables
    limit = size - FOOTER.size
    columns, buffers = _entries(columns, limit, "metadata of column"), _entries(buffers, limit, "global buffer")
    return Footer((major, minor), size, columns, buffers, early)


def _entries(table: Bytes, limit: int, what: str) -> np.ndarray:
    """The (position, size) pairs of an offset table as (start, stop)."""
    pairs = table.view("<u8").reshape(-1, 2)
    positions, sizes = pairs[:, 0], pairs[:, 1]
    # Compared before they are added, so that no sum overflows.
    if len(pairs) and int(positions.max()) + int(sizes.max()) > limit:
        wrong = (positions > limit) | (sizes > limit - np.minimum(positions, np.uint64(limit)))
        if wrong.any():
            i = int(np.argmax(wrong))
            raise CorruptFileError(f"{what} {i} ({pairs[i, 1]} bytes at {pairs[i, 0]}) is not within the file")
    entries = pairs.astype(np.int64)
    entries[:, 1] += entries[:, 0]
    return entries


def read_descriptor(footer: Footer) -> Steps[Descriptor]:
    """The schema and number of rows."""
    if not len(footer.global_buffers):
        raise CorruptFileError("the file has no global buffer and so no schema")
    (data,) = yield [ByteRange(*footer.global_buffers[0].tolist())]
    return _descriptor(data.tobytes())


@lru_cache(4)
def _descriptor(data: bytes) -> Descriptor:
    """The descriptor in a message. Many files of a table have the same."""
    message = parse_message(file_pb2.FileDescriptor, data, "descriptor")
    if message.length >= 2**63:
        raise CorruptFileError(f"the file declares {message.length} rows")
    return Descriptor(_schema(message.schema.SerializeToString()), message.length)


@lru_cache(4)
def _schema(data: bytes) -> Schema:
    """The schema in a message. Most files of a table have the same, but not the same number of rows."""
    message = file_pb2.Schema.FromString(data)
    return parse_fields(message.fields, message.metadata)


def read_columns(footer: Footer, indices: Sequence[int]) -> Steps[list[Column]]:
    """The metadata of the columns with these indices, in their order."""
    for i in indices:
        if not 0 <= i < footer.num_columns:
            raise CorruptFileError(f"column {i} does not exist; the file has {footer.num_columns} columns")
    answers = yield [ByteRange(*footer.column_metadata[i].tolist()) for i in indices]
    return [_column(a, footer, i) for a, i in zip(answers, indices)]


def _column(data: Bytes, footer: Footer, index: int) -> Column:
    what = f"metadata of column {index}"
    message: file2_pb2.EarlyColumnMetadata | file2_pb2.ColumnMetadata
    if footer.early:
        message = parse_message(file2_pb2.EarlyColumnMetadata, data, what)
    else:
        message = parse_message(file2_pb2.ColumnMetadata, data, what)
    pages, rows = [], 0
    for number, page in enumerate(message.pages):
        where = f"page {number} of column {index}"
        if page.length >= 2**63 or page.priority >= 2**63:
            raise CorruptFileError(f"{where} declares {page.length} rows from row {page.priority}")
        buffers = _ranges(page.buffer_offsets, page.buffer_sizes, footer, where)
        first_row = rows if footer.early else page.priority
        if footer.early:
            buffers = buffers[::-1]  # early writers numbered buffers from the last
        pages.append(Page(first_row, page.length, buffers, *_encoding(page.encoding, where), page.bounds))
        rows += page.length
    where = f"column {index}"
    buffers = _ranges(message.buffer_offsets, message.buffer_sizes, footer, where)
    encoding = ("", b"") if isinstance(message, file2_pb2.EarlyColumnMetadata) else _encoding(message.encoding, where)
    return Column(tuple(pages), buffers, *encoding)


def _ranges(offsets: Sequence[int], sizes: Sequence[int], footer: Footer, where: str) -> tuple[ByteRange, ...]:
    if len(offsets) != len(sizes):
        raise CorruptFileError(f"{where} has {len(offsets)} buffer offsets but {len(sizes)} buffer sizes")
    limit = footer.size - FOOTER.size
    ranges: list[ByteRange] = []
    for offset, size in zip(offsets, sizes):
        if offset + size > limit:
            raise CorruptFileError(f"buffer {len(ranges)} of {where} ({size} bytes at {offset}) is not within the file")
        ranges.append(ByteRange(offset, offset + size))
    return tuple(ranges)


def _encoding(message: file2_pb2.Encoding, where: str) -> tuple[str, bytes]:
    """The type URL of an encoding message, from after its last slash, and the message's bytes."""
    location = message.WhichOneof("location")
    if location == "indirect":
        raise UnsupportedFeatureError(f"{where}: an encoding in a separate buffer (deferred encoding) is not supported")
    if location != "direct":
        return "", b""
    encoding = message.direct.encoding
    return checked(where, lambda: (_known_encoding if len(encoding) <= _SMALL else _unwrapped)(encoding))


def _unwrapped(encoding: bytes) -> tuple[str, bytes]:
    wrapped = parse_message(AnyMessage, encoding, "encoding")
    return wrapped.type_url.rsplit("/", 1)[-1], wrapped.value


_known_encoding = lru_cache(maxsize=1024)(_unwrapped)
