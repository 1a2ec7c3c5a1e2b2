"""The bounds of a page: its smallest and its largest value, by which readers pass over pages without reading their values.

The format has no place for them in files of version 2.1 or later. They are in a field of the page's metadata that other readers ignore,
as the bytes of an Arrow array of two values, and are read together with the column's metadata.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lance_spark.predicate.bounds import Bounds
from lance_spark.schema.schema import Field

LEAST_ROWS = 1 << 12
"""The fewest rows for which bounds are kept: to read fewer costs less than their bounds."""
_DIGITS_OF_WORD = 18
"""Decimals of so many digits fit 64 bits."""


def has_bounds(field: Field) -> bool:
    """Whether pages of the column of this field at the top level get bounds: numbers and times do, whose bounds cost next to nothing."""
    return field.is_leaf and not field.is_blob and not field.children and _is_bounded(field.type)


def _is_bounded(t: pa.DataType) -> bool:
    is_number = types.is_integer(t) or types.is_float32(t) or types.is_float64(t) or types.is_decimal(t)
    is_moment = types.is_date(t) or types.is_time(t) or types.is_timestamp(t)
    return bool(is_number or is_moment)


def bounds_of(values: pa.Array) -> bytes:
    """The bounds of the values of a page; none if there are few values, only nulls, or NaNs, which are larger than all numbers."""
    t = values.type
    if len(values) < LEAST_ROWS:
        return b""
    if not values.null_count and types.is_floating(t):
        numbers = values.to_numpy()
        low = numbers.min()
        return b"" if np.isnan(low) else np.array([low, numbers.max()]).tobytes()
    if not values.null_count and types.is_decimal128(t) and t.precision <= _DIGITS_OF_WORD:
        # The higher word has the sign only. Arrow compares decimals as 128 bits, which takes ten times as long.
        start, stop = values.offset, values.offset + len(values)
        words = np.frombuffer(values.buffers()[1], "<i8")[2 * start : 2 * stop : 2]
        return b"".join(int(end).to_bytes(16, "little", signed=True) for end in (words.min(), words.max()))
    if types.is_floating(t) and pc.any(pc.is_nan(values)).as_py():
        return b""
    found = pc.min_max(values)
    if not found["min"].is_valid:
        return b""
    ends: bytes = pa.array([found["min"], found["max"]], t).buffers()[1].to_pybytes()
    return ends[: 2 * t.bit_width // 8]


def read_bounds(bounds: bytes, field: Field) -> Bounds | None:
    """The bounds of a page of the column of `field`; None if there are none of its type."""
    if not bounds or not has_bounds(field) or len(bounds) != 2 * field.type.bit_width // 8:
        return None
    return Bounds(pa.Array.from_buffers(field.type, 2, [None, pa.py_buffer(bounds)]))
