"""A set of keys that tells quickly which rows may have one of them. It compares hashes, so it may find a few other rows, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.arrow.types import is_bytes
from lance_spark.kernels.murmur3 import murmur3

_BITS_PER_KEY, _MIN_BITS, _MAX_BITS = 32, 1 << 16, 1 << 28
"""Bits of the filter: most are not set, so that it stops most other rows. It takes 8 KiB to 32 MiB."""

_U = np.uint64
_STEP, _FIRST, _SECOND = _U(0x9E3779B97F4A7C15), _U(0xBF58476D1CE4E5B9), _U(0x94D049BB133111EB)


def key_hashes(columns: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray | None]:
    """The hashes (uint64) of keys of one or more columns, and which keys are without nulls (None: all).

    Equal keys have equal hashes: integers of all sizes, floats of both sizes (0.0 equals -0.0 and NaN equals NaN, as in Spark), decimals
    of one type, instants in one unit, and text or bytes of all offset sizes.
    """
    hashes = np.zeros(len(columns[0]), dtype=np.uint64)
    valid: np.ndarray | None = None
    for column in columns:
        if column.null_count:
            here = column.is_valid().to_numpy(zero_copy_only=False)
            valid = here if valid is None else valid & here
        for words in _words(column):
            hashes += _STEP
            hashes ^= words
            _mix(hashes)
    return hashes, valid


def are_hashed(t: pa.DataType) -> bool:
    """Whether `key_hashes` supports values of a type."""
    numbers = pa.types.is_integer(t) or pa.types.is_float32(t) or pa.types.is_float64(t) or pa.types.is_decimal128(t)
    plain = pa.types.is_boolean(t) or pa.types.is_date32(t) or pa.types.is_timestamp(t) or is_bytes(t)
    return bool((numbers or plain) and t != pa.uint64())


def _mix(hashes: np.ndarray) -> None:
    """Mix the bits of each hash in place, as SplitMix64 does."""
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        hashes ^= hashes >> _U(shift)
        hashes *= factor
    hashes ^= hashes >> _U(31)


def _words(column: pa.Array) -> list[np.ndarray]:
    """Numbers (uint64) that are equal for equal values; those of nulls do not matter."""
    t = column.type
    if pa.types.is_decimal128(t):
        words = np.frombuffer(column.buffers()[1] or b"", "<u8")[2 * column.offset : 2 * (column.offset + len(column))]
        return [words[::2], words[1::2]]
    if is_bytes(t):
        return [_of_bytes(column.cast(pa.large_binary()))]
    if pa.types.is_floating(t):
        values = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0  # -0.0 equals 0.0
        return [np.where(np.isnan(values), np.nan, values).view(np.uint64)]
    if pa.types.is_date32(t):
        column = column.view(pa.int32())
    column = column.view(pa.int64()) if pa.types.is_timestamp(t) else column.cast(pa.int64())
    return [pc.fill_null(column, 0).to_numpy(zero_copy_only=False).view(np.uint64)]


def _of_bytes(column: pa.LargeBinaryArray) -> np.ndarray:
    _, offsets, data = column.buffers()
    hashes = np.empty(len(column), dtype=np.int64)
    ends = np.frombuffer(offsets or bytes(8), "<i8", len(column) + 1, column.offset * 8)
    murmur3(np.frombuffer(data or b"", np.uint8), ends, hashes)
    return hashes.view(np.uint64)


@dataclass(frozen=True)
class KeySet:
    """The hashes of keys: uint64, ascending, without duplicates."""

    hashes: np.ndarray

    def find(self, columns: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the rows whose key may be in the set, and the place of its hash in `hashes`. Keys with nulls are in no set."""
        hashes, valid = key_hashes(columns)
        slots = hashes >> self._shift
        found = (self._bits[slots >> _U(3)] >> (slots & _U(7)).astype(np.uint8) & np.uint8(1)).astype(bool)
        if valid is not None:
            found &= valid
        rows = np.flatnonzero(found)
        wanted = hashes[rows]
        at = np.searchsorted(self.hashes, wanted)
        if not len(self.hashes):
            return rows[:0], at[:0]
        same = self.hashes[np.minimum(at, len(self.hashes) - 1)] == wanted
        return rows[same], at[same]

    @cached_property
    def _size(self) -> int:
        """The number of bits of the filter, a power of two."""
        wanted = max(_MIN_BITS, min(_MAX_BITS, len(self.hashes) * _BITS_PER_KEY))
        return 1 << (wanted - 1).bit_length()

    @cached_property
    def _shift(self) -> np.uint64:
        return _U(64 - (self._size.bit_length() - 1))

    @cached_property
    def _bits(self) -> np.ndarray:
        """A filter that rules out most rows: the bit of each slot that a hash is in."""
        bits = np.zeros(self._size, dtype=bool)
        bits[self.hashes >> self._shift] = True
        return np.packbits(bits, bitorder="little")

    def __getstate__(self) -> dict[str, object]:
        return {"hashes": self.hashes}
