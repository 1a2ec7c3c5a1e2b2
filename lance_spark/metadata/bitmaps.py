"""Parsing of portable roaring bitmaps from untrusted bytes.

A few bytes can represent all numbers below 2^32: check a bitmap's length before iterating over its numbers.
"""

from __future__ import annotations

from pyroaring import BitMap

from lance_spark.errors import CorruptFileError


def read_bitmap(data: bytes, what: str) -> BitMap:
    """The bitmap in `data`; `what` names it in errors. Raises CorruptFileError for invalid bytes."""
    try:
        # pyroaring checks that the containers lie within the bytes and are in order.
        return BitMap.deserialize(data)
    except (ValueError, IndexError) as e:
        raise CorruptFileError(f"{what} is not a roaring bitmap: {e}") from e
