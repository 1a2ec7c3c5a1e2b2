"""Vectors of Arrow arrays as matrices."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ELEMENTS: dict[pa.DataType, np.dtype] = {
    pa.float16(): np.dtype(np.float16),
    pa.float32(): np.dtype(np.float32),
    pa.float64(): np.dtype(np.float64),
    pa.uint8(): np.dtype(np.uint8),
    pa.int8(): np.dtype(np.int8),
}
"""The types of the numbers in vectors."""


def vector_type(t: pa.DataType) -> tuple[pa.FixedSizeListType | None, bool]:
    """The type of the vectors in a column of this type (None: it has none), and whether a row has a list of vectors."""
    several = pa.types.is_list(t) or pa.types.is_large_list(t)
    inner = t.value_type if several else t
    is_vector = pa.types.is_fixed_size_list(inner) and inner.value_type in ELEMENTS and inner.list_size > 0
    return (inner if is_vector else None), several


def matrix(array: pa.FixedSizeListArray) -> tuple[np.ndarray, np.ndarray]:
    """The vectors of an array as rows of a matrix, and a mask of the rows that have one; vectors with a null in them do not count."""
    size = array.type.list_size
    items = array.values[array.offset * size : (array.offset + len(array)) * size]
    valid = np.ones(len(array), np.bool_) if not array.null_count else array.is_valid().to_numpy(zero_copy_only=False)
    if items.null_count:
        valid &= items.is_valid().to_numpy(zero_copy_only=False).reshape(-1, size).all(axis=1)
        items = items.fill_null(0)
    return items.to_numpy(zero_copy_only=False).reshape(len(array), size), valid


def each_vector(array: pa.Array) -> tuple[pa.FixedSizeListArray, np.ndarray]:
    """The vectors of an array, of its lists if it has those, and the number of the row of each."""
    if pa.types.is_fixed_size_list(array.type):
        return array, np.arange(len(array))
    sizes = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    return array.flatten(), np.repeat(np.arange(len(array)), sizes)


def lists_of_vectors(array: pa.ListArray) -> tuple[pa.FixedSizeListArray, np.ndarray, np.ndarray]:
    """The vectors of all lists of an array, and the first and the last (exclusive) of each; null lists have none."""
    offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    first, last = offsets[:-1].copy(), offsets[1:].copy()
    if array.null_count:
        null = array.is_null().to_numpy(zero_copy_only=False)
        last[null] = first[null]
    start = int(offsets[0]) if len(offsets) else 0
    stop = int(offsets[-1]) if len(offsets) else 0
    return array.values[start:stop], first - start, last - start
