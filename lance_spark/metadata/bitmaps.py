"""Roaring bitmaps in their portable form out of untrusted bytes.

A few bytes can stand for all numbers below 2^32: ask a bitmap for its length before anything is done for each of its numbers.
"""

from __future__ import annotations

from pyroaring import BitMap

from lance_spark.errors import CorruptFileError


def read_bitmap(data: bytes, what: str) -> BitMap:
    """The bitmap in `data`; `what` it is, for the error. Raises CorruptFileError for bytes that are none."""
    try:
        # pyroaring checks that the containers lie within the bytes and are in order.
        return BitMap.deserialize(data)
    except (ValueError, IndexError) as e:
        raise CorruptFileError(f"{what} is not a roaring bitmap: {e}") from e
