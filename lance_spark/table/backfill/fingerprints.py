"""Fingerprints of rows: a number for the values that a function received, by which it is known later whether they have changed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_spark.arrow.types import is_bytes
from lance_spark.kernels.xxh64 import xxh64

_NULL = np.uint64(0x9E3779B97F4A7C15)


def fingerprints(columns: Sequence[pa.Array]) -> np.ndarray:
    """A hash (uint64) of the values of each row. It depends on the values alone, not on how Arrow stores them.

    Two different rows have the same hash with a probability of 2^-64.
    """
    return _joined([_hashes(column) for column in columns], len(columns[0]))


def _joined(parts: Sequence[np.ndarray], count: int) -> np.ndarray:
    """A hash of several words of each row."""
    words = np.stack(parts, axis=1) if parts else np.zeros((count, 0), np.uint64)
    return _of_slices(words.reshape(-1), np.arange(count + 1, dtype=np.int64) * (8 * len(parts)))


def _of_slices(data: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """A hash of each slice of the bytes of `data`."""
    found = np.empty(len(offsets) - 1, np.uint64)
    xxh64(np.ascontiguousarray(data).view(np.uint8), offsets, found)
    return found


def _hashes(array: pa.Array) -> np.ndarray:
    t = array.type
    if isinstance(t, pa.BaseExtensionType):
        return _hashes(array.storage)
    if pa.types.is_dictionary(t):
        return _hashes(array.dictionary_decode())
    if pa.types.is_null(t):
        return np.full(len(array), _NULL)
    hashes = _of_values(array)
    if array.null_count:
        hashes = np.where(array.is_valid().to_numpy(zero_copy_only=False), hashes, _NULL)
    return hashes


def _of_values(array: pa.Array) -> np.ndarray:
    """The hashes of an array; those of nulls do not matter."""
    t, count = array.type, len(array)
    if pa.types.is_struct(t):
        return _joined([_hashes(child) for child in array.flatten()], count)
    if pa.types.is_map(t):
        array = array.cast(pa.list_(pa.struct([t.key_field, t.item_field])))
        t = array.type
    if pa.types.is_fixed_size_list(t):
        # `values` ignores the offset, and keeps the items of nulls, so that all rows have as many.
        items = _hashes(array.values.slice(array.offset * t.list_size, count * t.list_size))
        return _of_slices(items, np.arange(count + 1, dtype=np.int64) * (8 * t.list_size))
    if pa.types.is_list(t) or pa.types.is_large_list(t):
        offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        items = _hashes(array.values.slice(offsets[0], offsets[-1] - offsets[0]))
        return _of_slices(items, (offsets - offsets[0]) * 8)
    if is_bytes(t):
        large = array.cast(pa.large_binary())
        _, ends, data = large.buffers()
        offsets = np.frombuffer(ends or bytes(8), "<i8", count + 1, large.offset * 8)
        return _of_slices(np.frombuffer(data or b"", np.uint8), offsets)
    if pa.types.is_boolean(t):
        return _hashes(array.cast(pa.uint8()))
    width = t.bit_width // 8
    start, stop = array.offset * width, (array.offset + count) * width
    values = np.frombuffer(array.buffers()[1] or bytes(width * count), np.uint8)[start:stop]
    if width in (1, 2, 4, 8):
        return np.ascontiguousarray(values).view(f"<u{width}").astype(np.uint64)
    return _of_slices(values, np.arange(count + 1, dtype=np.int64) * width)
