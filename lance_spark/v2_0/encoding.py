"""What an array encoding of storage 2.0 is: a node that reads the selected values of its page as an Arrow array."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from lance_spark.byte_ranges import Bytes
from lance_spark.columns import Steps
from lance_spark.errors import CorruptFileError
from lance_spark.spans import Spans


class Encoding(Protocol):
    """A node of a page's encoding tree. Its buffers are already ranges of the file."""

    def read(self, spans: Spans, t: pa.DataType) -> Steps[pa.Array]:
        """The values of `spans`, one after the other, as an array of type `t` with offset 0."""


def bit_width(t: pa.DataType) -> int | None:
    """Bits that a value of `t` takes in a flat buffer, None when `t` is not of fixed width."""
    if pa.types.is_fixed_size_list(t):
        item = bit_width(t.value_type)
        return None if item is None else item * t.list_size
    if pa.types.is_null(t) or pa.types.is_dictionary(t) or pa.types.is_nested(t):
        return None
    try:
        return int(t.bit_width)
    except ValueError:
        return None


def fixed_width_array(t: pa.DataType, length: int, data: Bytes) -> pa.Array:
    """The array of `length` values of the fixed-width type `t` that are stored in `data`; bits are packed from the first on."""
    if pa.types.is_fixed_size_list(t):
        return fixed_size_list_array(t, fixed_width_array(t.value_type, length * t.list_size, data))
    width = bit_width(t)
    if width is None or (length * width + 7) // 8 > len(data):
        raise CorruptFileError(f"{length} values of {t} do not fit {len(data)} bytes")
    # Compute kernels and the JVM expect aligned values; ranges of a file start anywhere.
    if width > 8 and data.ctypes.data % min(width // 8 & -(width // 8), 8):
        data = data.copy()
    return pa.Array.from_buffers(t, length, [None, pa.py_buffer(data)])


def fixed_size_list_array(t: pa.DataType, items: pa.Array) -> pa.Array:
    """The array of fixed-size lists, none null, that has these items."""
    return pa.Array.from_buffers(t, len(items) // t.list_size, [None], children=[items])


def values_of(array: pa.Array) -> np.ndarray:
    """The values of an array of numbers without nulls, zero-copy."""
    if array.null_count:
        raise CorruptFileError(f"{array.null_count} nulls where the encoding allows none")
    return array.to_numpy(zero_copy_only=True)
