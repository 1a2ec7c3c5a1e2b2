"""Validity bitmaps of Arrow arrays: a bit for each value, the lowest of a byte first."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def validity_of(array: pa.Array) -> pa.Buffer | None:
    """The array's validity bitmap, beginning with the bit of its first value; None if there are no nulls."""
    if not array.null_count:
        return None
    bitmap = array.buffers()[0]
    if bitmap is not None and array.offset % 8 == 0:
        return bitmap.slice(array.offset // 8)
    return pa.py_buffer(np.packbits(array.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))
