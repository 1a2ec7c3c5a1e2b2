"""Numbers packed into binary values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_spark.arrow.texts import bytes_of


def packed(numbers: np.ndarray, ends: np.ndarray, valid: np.ndarray | None = None) -> pa.Array:
    """The bytes of the rows of an array: value i has those from row `ends[i]` to row `ends[i + 1]`. Those that are not `valid` are null."""
    width = numbers.dtype.itemsize * (numbers.shape[1] if numbers.ndim == 2 else 1)
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bits, pa.py_buffer((ends * width).astype(np.int32)), pa.py_buffer(np.ascontiguousarray(numbers))]
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers)


def unpacked(values: pa.Array, dtype: np.dtype | type) -> tuple[np.ndarray, np.ndarray]:
    """The numbers in all binary values, none of which is null, and how many each of them has."""
    data, bounds = bytes_of(values)
    size = np.dtype(dtype).itemsize
    numbers = np.frombuffer(data[bounds[0] : bounds[-1]].tobytes(), dtype)
    return numbers, np.diff(bounds) // size
