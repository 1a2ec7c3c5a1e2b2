"""How much memory an Arrow file takes, told before it is read: a few compressed bytes can stand for gigabytes.

Implements what is needed for that of "IPC File Format" of the Arrow columnar format: the footer names the record batches, and each of these
its buffers; a compressed buffer begins with its length. Footer and batches are FlatBuffers, of which pyarrow shows nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from lance_spark.errors import CorruptFileError

_MAGIC = b"ARROW1"
_TAIL = struct.Struct("<i6s")
_BLOCK = struct.Struct("<qi4xq")
"""Of a footer: position, length of the metadata, length of the body."""

_BUFFER = struct.Struct("<qq")
_FOOTER_BATCHES, _MESSAGE_HEADER, _BATCH_BUFFERS, _BATCH_COMPRESSION = 3, 2, 2, 3
"""Numbers of fields, as in Footer, Message and RecordBatch of Arrow's schemas."""


def decoded_bytes(data: bytes) -> int:
    """The bytes that the buffers of all record batches take. Raises CorruptFileError for bytes that are no Arrow file."""
    try:
        length, magic = _TAIL.unpack_from(data, len(data) - _TAIL.size)
        if magic != _MAGIC:
            raise CorruptFileError(f"it is not an Arrow file: it ends with {magic!r}")
        footer = len(data) - _TAIL.size - length
        return sum(_of_batch(data, *block) for block in _structs(data, _field(data, _root(data, footer), _FOOTER_BATCHES), _BLOCK))
    except (struct.error, IndexError) as e:
        raise CorruptFileError(f"it is not an Arrow file: {e}") from e


def _of_batch(data: bytes, position: int, metadata: int, _body: int) -> int:
    """The bytes of a record batch, whose message is at `position` behind a marker and a length of 4 bytes each."""
    message = _root(data, position + 8)
    header = _field(data, message, _MESSAGE_HEADER)
    batch = header + _u32(data, header)
    buffers = _structs(data, _field(data, batch, _BATCH_BUFFERS), _BUFFER)
    if not _field(data, batch, _BATCH_COMPRESSION):
        return sum(max(size, 0) for _, size in buffers)
    body = position + metadata
    # -1 says that a buffer is not compressed after all.
    return sum(max(struct.unpack_from("<q", data, _within(data, body + at))[0], size) for at, size in buffers if size > 0)


def _root(data: bytes, at: int) -> int:
    """Where the root table of a FlatBuffer begins."""
    return at + _u32(data, _within(data, at))


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a table is; 0 if it is not there."""
    vtable = table - struct.unpack_from("<i", data, _within(data, table))[0]
    (size,) = struct.unpack_from("<H", data, _within(data, vtable))
    if 4 + 2 * number >= size:
        return 0
    (offset,) = struct.unpack_from("<H", data, vtable + 4 + 2 * number)
    return table + offset if offset else 0


def _structs(data: bytes, at: int, kind: struct.Struct) -> Iterator[tuple[int, ...]]:
    """The structs of the vector that the field at `at` refers to."""
    if not at:
        return iter(())
    start = at + _u32(data, at)
    count = _u32(data, start)
    return kind.iter_unpack(memoryview(data)[start + 4 : start + 4 + count * kind.size])


def _u32(data: bytes, at: int) -> int:
    value: int = struct.unpack_from("<I", data, _within(data, at))[0]
    return value


def _within(data: bytes, at: int) -> int:
    """`at`, which must lie within the bytes: Python counts negative positions from the end."""
    if not 0 <= at < len(data):
        raise IndexError(f"position {at} of {len(data)} bytes")
    return at
