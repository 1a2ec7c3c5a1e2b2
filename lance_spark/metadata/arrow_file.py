"""The memory that an Arrow file needs when it is read. A few compressed bytes can expand to gigabytes, so this is checked first.

Implements the required part of "IPC File Format" of the Arrow columnar format: the footer lists the record batches, each batch lists
its buffers, and a compressed buffer starts with its decoded length. pyarrow does not expose these FlatBuffers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from lance_spark.errors import CorruptFileError

_MAGIC = b"ARROW1"
_TAIL = struct.Struct("<i6s")
_BLOCK = struct.Struct("<qi4xq")
"""A block of the footer: position, length of the metadata, length of the body."""

_BUFFER = struct.Struct("<qq")
_FOOTER_BATCHES, _MESSAGE_HEADER, _BATCH_BUFFERS, _BATCH_COMPRESSION = 3, 2, 2, 3
"""Field numbers in the FlatBuffers Footer, Message and RecordBatch of Arrow's schemas."""


def decoded_bytes(data: bytes) -> int:
    """The decoded size in bytes of all buffers of all record batches. Raises CorruptFileError if `data` is not an Arrow file."""
    try:
        length, magic = _TAIL.unpack_from(data, len(data) - _TAIL.size)
        if magic != _MAGIC:
            raise CorruptFileError(f"it is not an Arrow file: expected {_MAGIC!r} at the end, found {magic!r}")
        footer = len(data) - _TAIL.size - length
        return sum(_of_batch(data, *block) for block in _structs(data, _field(data, _root(data, footer), _FOOTER_BATCHES), _BLOCK))
    except (struct.error, IndexError) as e:
        raise CorruptFileError(f"it is not an Arrow file: {e}") from e


def _of_batch(data: bytes, position: int, metadata: int, _body: int) -> int:
    """The decoded size of a record batch. Its message follows a marker and a length of 4 bytes each at `position`."""
    message = _root(data, position + 8)
    header = _field(data, message, _MESSAGE_HEADER)
    batch = header + _u32(data, header)
    buffers = _structs(data, _field(data, batch, _BATCH_BUFFERS), _BUFFER)
    if not _field(data, batch, _BATCH_COMPRESSION):
        return sum(max(size, 0) for _, size in buffers)
    body = position + metadata
    # A length of -1 means that the buffer is not compressed.
    total = 0
    for at, size in buffers:
        if size > 0:
            (decoded,) = struct.unpack_from("<q", data, _within(data, body + at))
            total += max(decoded, size)
    return total


def _root(data: bytes, at: int) -> int:
    """The position of the root table of a FlatBuffer."""
    return at + _u32(data, _within(data, at))


def _field(data: bytes, table: int, number: int) -> int:
    """The position of a field of a table; 0 if the field is absent."""
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
    """Return `at`, or raise IndexError if it is out of bounds (Python would count a negative position from the end)."""
    if not 0 <= at < len(data):
        raise IndexError(f"position {at} of {len(data)} bytes")
    return at
