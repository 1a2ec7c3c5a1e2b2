"""The order of values in indexes: nulls first, then ascending; -0.0 is before 0.0, and NaN, of which there is only one, is last."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

_BITS = {16: np.int16, 32: np.int32, 64: np.int64}


def sort_order(values: pa.Array) -> np.ndarray:
    """The positions of the values in order; equal values stay as they are."""
    known = np.flatnonzero(np.asarray(values.is_valid()))
    nulls = np.flatnonzero(np.asarray(values.is_null()))
    if types.is_floating(values.type):
        order = np.argsort(_keys(values)[known], kind="stable")
    else:
        order = pc.sort_indices(values.drop_null()).to_numpy().astype(np.int64)
    return np.concatenate([nulls, known[order]])


def first_of_equals(values: pa.Array) -> np.ndarray:
    """For each of the values, which are in order: whether the one before it is another value."""
    first = np.ones(len(values), np.bool_)
    if len(values) > 1:
        null = np.asarray(values.is_null())
        plain = pa.array(_keys(values)) if types.is_floating(values.type) else values
        differ = pc.fill_null(pc.not_equal(plain[1:], plain[:-1]), False).to_numpy(zero_copy_only=False)
        first[1:] = np.where(null[1:] | null[:-1], null[1:] != null[:-1], differ)
    return first


def _keys(values: pa.Array) -> np.ndarray:
    """Integers in the order of the floats."""
    numbers = values.fill_null(np.array(0, values.type.to_pandas_dtype())[()]).to_numpy(zero_copy_only=False)
    bits = np.where(np.isnan(numbers), np.array(np.nan, numbers.dtype), numbers).view(_BITS[values.type.bit_width])
    mask = bits.dtype.type(np.iinfo(bits.dtype).max)
    return np.where(bits < 0, bits ^ mask, bits)
