"""Large values that stay in the memory into which they were read, until the rows that are wanted are known.

A view is 16 bytes: the length of a value, and where it is in one of several buffers ("Variable-size Binary View Layout" of
Arrow's columnar format). So rows are joined, cut and put in order without their values. `copied` copies each value once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from lance_spark.arrow.types import is_binary
from lance_spark.arrow.validity import validity_of

VIEW_BYTES = 16
INLINE_BYTES = 12
"""The most bytes of a value that is in its view."""

_MOST_BYTES = 2**31 - 1
"""The most bytes of a buffer, and of the values of a binary array."""


@cache
def available() -> bool:
    """Whether pyarrow copies values of views into arrays of other types, as its newer versions do."""
    try:
        pa.array([b""], pa.binary_view()).cast(pa.large_binary())
    except (AttributeError, pa.ArrowNotImplementedError):
        return False
    return True


def can_be_views(t: pa.DataType) -> bool:
    """Whether there may be views of values of this type: bytes of any length, and lists of a fixed number of numbers."""
    if types.is_fixed_size_list(t):
        return bool(types.is_primitive(t.value_type) and not types.is_boolean(t.value_type))
    return is_binary(t)


def are_views(array: pa.Array) -> bool:
    """Whether the array has views."""
    return bool(types.is_binary_view(array.type))


def of_buffers(views: np.ndarray, buffers: Sequence[np.ndarray | pa.Buffer], valid: np.ndarray | None) -> pa.Array:
    """An array of views, which are the bytes of `views`; `valid` (bool): those that are no null (None: all)."""
    validity = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    count = views.nbytes // VIEW_BYTES
    return pa.Array.from_buffers(pa.binary_view(), count, [validity, pa.py_buffer(views), *map(pa.py_buffer, buffers)])


def of_rows(buffers: Sequence[np.ndarray], width: int) -> pa.Array:
    """Views of the rows in `buffers`, which follow one another and have `width` bytes each, more than `INLINE_BYTES`."""
    counts = [len(buffer) // width for buffer in buffers]
    views = np.empty((sum(counts), 4), np.int32)
    end = 0
    for number, (buffer, count) in enumerate(zip(buffers, counts)):
        own, end = views[end : end + count], end + count
        own[:, 0], own[:, 2] = width, number
        own[:, 1] = np.ascontiguousarray(buffer.reshape(count, width)[:, :4]).view(np.int32).reshape(-1)
        own[:, 3] = np.arange(count) * width
    return of_buffers(views, buffers, None)


def fit(buffers: Sequence[np.ndarray]) -> bool:
    """Whether views can point into buffers of these sizes."""
    return all(len(buffer) <= _MOST_BYTES for buffer in buffers)


def taken(array: pa.Array, positions: np.ndarray) -> pa.Array:
    """The views at these positions, which pyarrow cannot take."""
    _, views, *buffers = array.buffers()
    own = np.frombuffer(views, np.int32).reshape(-1, 4)[array.offset : array.offset + len(array)]
    valid = array.is_valid().to_numpy(zero_copy_only=False)[positions] if array.null_count else None
    return of_buffers(own[positions], buffers, valid)


def copied(array: pa.Array, t: pa.DataType) -> pa.Array:
    """The values of views as an array of type `t`. Raises ArrowInvalid for more bytes than an array of this type can have."""
    if not types.is_fixed_size_list(t):
        return array.cast(t)
    data = array.cast(pa.large_binary()).buffers()[2]
    items = pa.Array.from_buffers(t.value_type, len(array) * t.list_size, [None, data])
    return pa.Array.from_buffers(t, len(array), [validity_of(array)], children=[items])


def copied_in_pieces(array: pa.Array, t: pa.DataType) -> Iterator[pa.Array]:
    """`copied`, in as many arrays as are needed for all bytes."""
    lengths = np.frombuffer(array.buffers()[1], np.int32).reshape(-1, 4)[array.offset : array.offset + len(array), 0]
    ends = np.cumsum(lengths, dtype=np.int64)
    start = before = 0
    while start < len(array):
        stop = max(int(np.searchsorted(ends, before + _MOST_BYTES, side="right")), start + 1)
        yield copied(array.slice(start, stop - start), t)
        start, before = stop, int(ends[stop - 1])
