"""Memory for the values of pages.

Arrow's pool reuses freed large blocks. The C library returns them to the system, which zeroes them before reuse; this takes longer than
decoding.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_LARGE = 1 << 16
"""The C library keeps smaller blocks for itself."""


def empty(count: int, dtype: np.dtype | type = np.uint8) -> np.ndarray:
    """An uninitialised array of `count` values."""
    size = int(count) * np.dtype(dtype).itemsize
    if size < _LARGE:
        return np.empty(count, dtype)
    array: np.ndarray = np.frombuffer(pa.allocate_buffer(size), dtype)
    return array


def zeros(count: int, dtype: np.dtype | type = np.uint8) -> np.ndarray:
    """An array of `count` zeros."""
    array = empty(count, dtype)
    array.fill(0)
    return array
