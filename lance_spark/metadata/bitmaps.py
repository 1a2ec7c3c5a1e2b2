"""Roaring bitmaps: of many numbers, and parsed from untrusted bytes.

A few bytes can represent all numbers below 2^32: check a bitmap's length before iterating over its numbers.
"""

from __future__ import annotations

from array import array

import numpy as np
from pyroaring import BitMap

from lance_spark.errors import CorruptFileError


def read_bitmap(data: bytes, what: str) -> BitMap:
    """The bitmap in `data`; `what` names it in errors. Raises CorruptFileError for invalid bytes."""
    try:
        # pyroaring checks that the containers lie within the bytes and are in order.
        return BitMap.deserialize(data)
    except (ValueError, IndexError) as e:
        raise CorruptFileError(f"{what} is not a roaring bitmap: {e}") from e


def bitmap_of(numbers: np.ndarray) -> BitMap:
    """The bitmap of numbers below 2^32, fastest if they ascend; consecutive ones, as of whole fragments, are added as one range."""
    if len(numbers):
        first, last = int(numbers[0]), int(numbers[-1])
        if last - first == len(numbers) - 1 and (numbers[1:] > numbers[:-1]).all():
            return BitMap(range(first, last + 1))
    # pyroaring takes arrays of the standard library as they are, others number by number.
    return BitMap(array("I", numbers.astype(np.uint32, copy=False).tobytes()))


def offsets_of(bitmap: BitMap) -> np.ndarray:
    """The numbers in a bitmap (uint32), ascending."""
    return np.frombuffer(bitmap.to_array(), np.uint32)
