"""The bytes of texts and of binary values, for kernels."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as types


def bytes_of(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of all values and their bounds (int64): value i is `data[bounds[i]:bounds[i + 1]]`. For types that are `is_bytes`.

    What is there for nulls means nothing. The bytes are read-only, wherever they come from: for others, kernels would compile again.
    """
    if not len(values):
        return _read_only(np.empty(0, np.uint8)), np.zeros(1, np.int64)
    _, offsets, data = values.buffers()
    size = np.dtype(np.int64 if types.is_large_string(values.type) or types.is_large_binary(values.type) else np.int32)
    bounds = np.frombuffer(offsets, size, len(values) + 1, values.offset * size.itemsize).astype(np.int64)
    found = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, np.uint8)
    return _read_only(found), bounds


def _read_only(data: np.ndarray) -> np.ndarray:
    data.flags.writeable = False
    return data
