"""SipHash-1-3 of many values at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lance_spark.arrow.texts import bytes_of
from lance_spark.kernels.sip_hash import sip_hash


def sip_hashes(values: pa.Array) -> np.ndarray:
    """The hash (uint64) of each of these bytes, which are not null. The time is proportional to the number of bytes."""
    data, offsets = bytes_of(values)
    hashes = np.empty(len(values), np.uint64)
    sip_hash(data, offsets, hashes)
    return hashes
