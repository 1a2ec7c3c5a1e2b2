"""The pairs of rows of a source and of a table whose keys are equal, for keys of any type.

As in pylance, a null is not equal to anything, but nulls within structs and lists are equal to each other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import UnsupportedFeatureError

_SOURCE, _TARGET = "source", "target"
"""Columns of row numbers; keys are called by their numbers, so that they may have any name."""


def equal_keys(source: pa.Table, target: pa.Table, keys: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The row numbers of all pairs, in the source and in the table. `source` has the table's types; `target` may have extension types.

    Raises UnsupportedFeatureError, which names the column, for a type whose values cannot be compared.
    """
    names = [str(i) for i in range(len(keys))]
    sides: list[list[pa.ChunkedArray]] = [[], []]
    for key in keys:
        for side, column in zip(sides, _comparable(key, source[key], target[key]), strict=True):
            side.append(column)
    left = pa.table([*sides[0], np.arange(source.num_rows)], names=[*names, _SOURCE])
    right = pa.table([*sides[1], np.arange(target.num_rows)], names=[*names, _TARGET])
    both = right.join(left, keys=names, join_type="inner")
    return both[_SOURCE].to_numpy(), both[_TARGET].to_numpy()


def _comparable(key: str, source: pa.ChunkedArray, target: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The keys of both sides in a type that Arrow joins: nested values as numbers, which are equal where the values are."""
    t = source.type
    if not pa.types.is_nested(t) and not pa.types.is_null(t) and source.type == target.type:
        return source, target
    try:
        chunks = [_storage(chunk).cast(t) for column in (source, target) for chunk in column.chunks]
        together = pa.concat_arrays([*chunks, pa.array([], t)])
        numbers = value_numbers(together)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as e:
        raise UnsupportedFeatureError(f"column {key!r}: merging on a key of type {t} is not supported: {e}") from e
    keys = pa.chunked_array([pa.array(numbers, mask=numbers < 0)])
    return keys.slice(0, len(source)), keys.slice(len(source))


def _storage(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def value_numbers(array: pa.Array) -> np.ndarray:
    """A number for each value, -1 for null; equal values have equal numbers (int64)."""
    t = array.type
    if pa.types.is_null(t):
        return np.full(len(array), -1)
    if pa.types.is_struct(t):
        columns = [value_numbers(array.field(i)) for i in range(t.num_fields)]
        rows = np.ascontiguousarray(np.stack(columns, axis=1)) if columns else np.zeros((len(array), 1), np.int64)
        found = _distinct(rows.reshape(-1), np.arange(len(array) + 1) * rows.shape[1])
    elif pa.types.is_nested(t) and not pa.types.is_dictionary(t):
        if pa.types.is_map(t):
            items = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
            buffers, offset = array.buffers()[:2], array.offset
            array = pa.Array.from_buffers(pa.list_(items.type), len(array), buffers, offset=offset, children=[items])
        # `flatten` leaves out the items of null lists.
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
        found = _distinct(value_numbers(array.flatten()), np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))
    else:
        values = array.dictionary_decode() if pa.types.is_dictionary(t) else array
        return np.asarray(pc.fill_null(values.dictionary_encode().indices, -1)).astype(np.int64)
    numbers: np.ndarray = np.where(array.is_valid().to_numpy(zero_copy_only=False), found, -1)
    return numbers


def _distinct(numbers: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """A number for each sequence of numbers, those between two offsets."""
    buffers = [None, pa.py_buffer(offsets.astype(np.int64) * numbers.itemsize), pa.py_buffer(numbers)]
    sequences = pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
    return np.asarray(sequences.dictionary_encode().indices).astype(np.int64)
