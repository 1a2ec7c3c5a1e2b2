"""Families of types whose values differ only in how they are stored."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as types


def is_text(t: pa.DataType) -> bool:
    """Whether values of this type are texts."""
    return bool(types.is_string(t) or types.is_large_string(t))


def is_binary(t: pa.DataType) -> bool:
    """Whether values of this type are bytes of any length."""
    return bool(types.is_binary(t) or types.is_large_binary(t))


def is_bytes(t: pa.DataType) -> bool:
    """Whether values of this type are texts or bytes of any length."""
    return is_text(t) or is_binary(t)


def is_list(t: pa.DataType) -> bool:
    """Whether values of this type are lists of any length."""
    return bool(types.is_list(t) or types.is_large_list(t))


_UNKNOWN_WIDTH = 20
"""The bytes that Spark expects a text to have."""


def expected_width(t: pa.DataType) -> int:
    """The number of bytes of a value; a guess for types whose values have any number."""
    try:
        return max(t.bit_width // 8, 1) if t.bit_width else _UNKNOWN_WIDTH
    except ValueError:
        return _UNKNOWN_WIDTH
