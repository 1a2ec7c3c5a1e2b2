"""A set of keys that tells quickly which rows may have one of them. It compares hashes, so it may find a few other rows, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.arrow.types import is_bytes
from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.murmur3 import murmur3

_MIN_SLOTS, _MAX_SLOTS = 1 << 10, 1 << 22
"""Slots of the table by which hashes are found: twice as many as keys, so that most other rows end at an empty one. At most 16 MiB."""

_U = np.uint64
_MORE_BITS = _U(3)
"""Eight marks for a slot take a quarter of its memory, so that most rows that have none of the keys end in the caches of a core."""
_STEP, _FIRST, _SECOND = _U(0x9E3779B97F4A7C15), _U(0xBF58476D1CE4E5B9), _U(0x94D049BB133111EB)
_30, _27, _31 = _U(30), _U(27), _U(31)


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
            assert len(words) == len(hashes)
            _mix(hashes, np.ascontiguousarray(words))
    return hashes, valid


def are_hashed(t: pa.DataType) -> bool:
    """Whether `key_hashes` supports values of a type."""
    if t == pa.uint64():
        return False
    floats = pa.types.is_float32(t) or pa.types.is_float64(t)
    numbers = pa.types.is_integer(t) or floats or pa.types.is_decimal128(t)
    plain = pa.types.is_boolean(t) or pa.types.is_date32(t) or pa.types.is_timestamp(t) or is_bytes(t)
    return bool(numbers or plain)


@kernel
def _mix(hashes: np.ndarray, words: np.ndarray) -> None:
    """Mix a word into each hash in place, as SplitMix64 does. There are as many words as hashes."""
    for i in range(len(hashes)):
        mixed = (hashes[i] + _STEP) ^ words[i]
        mixed = (mixed ^ (mixed >> _30)) * _FIRST
        mixed = (mixed ^ (mixed >> _27)) * _SECOND
        hashes[i] = mixed ^ (mixed >> _31)


def _words(column: pa.Array) -> list[np.ndarray]:
    """Numbers (uint64) that are equal for equal values; those of nulls do not matter."""
    t = column.type
    if pa.types.is_decimal128(t):
        start, stop = column.offset, column.offset + len(column)
        words = np.frombuffer(column.buffers()[1] or b"", "<u8")[2 * start : 2 * stop]
        return [words[::2], words[1::2]]
    if is_bytes(t):
        return [_of_bytes(column.cast(pa.large_binary()))]
    if pa.types.is_floating(t):
        values = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0  # -0.0 equals 0.0
        return [np.where(np.isnan(values), np.nan, values).view(np.uint64)]
    if pa.types.is_date32(t):
        column = column.view(pa.int32())
    column = column.view(pa.int64()) if pa.types.is_timestamp(t) else column.cast(pa.int64())
    return [(pc.fill_null(column, 0) if column.null_count else column).to_numpy(zero_copy_only=False).view(np.uint64)]


def _of_bytes(column: pa.LargeBinaryArray) -> np.ndarray:
    _, offsets, data = column.buffers()
    hashes = np.empty(len(column), dtype=np.int64)
    ends = np.frombuffer(offsets or bytes(8), "<i8", len(column) + 1, column.offset * 8)
    murmur3(np.frombuffer(data or b"", np.uint8), ends, hashes)
    return hashes.view(np.uint64)


@kernel
def _find(
    hashes: np.ndarray, marks: np.ndarray, shift: np.uint64, starts: np.ndarray, known: np.ndarray, rows: np.ndarray, places: np.ndarray
) -> int:
    """Find each hash in `known`, where those of a slot, the first bits, begin at its number in `starts`. Returns how many are there.

    `marks` says for the first bits of a hash, some more than those of a slot, whether any known one has them. `rows` and `places` have
    room for all hashes.
    """
    count, mark_shift = 0, shift - _MORE_BITS
    for i in range(len(hashes)):
        mark = hashes[i] >> mark_shift
        if not marks[mark >> _U(3)] >> np.uint8(mark & _U(7)) & np.uint8(1):
            continue
        slot = np.int64(hashes[i] >> shift)
        for place in range(starts[slot], starts[slot + 1]):
            if known[place] == hashes[i]:
                rows[count], places[count] = i, place
                count += 1
                break
    return count


@dataclass(frozen=True)
class KeySet:
    """The hashes of keys: uint64, ascending, without duplicates."""

    hashes: np.ndarray

    def find(self, columns: Sequence[pa.Array]) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the rows whose key may be in the set, and the place of its hash in `hashes`. Keys with nulls are in no set."""
        hashes, valid = key_hashes(columns)
        rows, places = np.empty((2, len(hashes)), np.int64)
        count = _find(hashes, self._marks, self._shift, self._starts, self.hashes, rows, places)
        rows, places = rows[:count].copy(), places[:count].copy()
        return (rows, places) if valid is None else (rows[valid[rows]], places[valid[rows]])

    @cached_property
    def _slots(self) -> int:
        """A power of two."""
        return 1 << (max(_MIN_SLOTS, min(_MAX_SLOTS, 2 * len(self.hashes))) - 1).bit_length()

    @cached_property
    def _shift(self) -> np.uint64:
        return _U(64 - (self._slots.bit_length() - 1))

    @cached_property
    def _starts(self) -> np.ndarray:
        """The place of the first hash of each slot, and the number of hashes."""
        counts = np.bincount((self.hashes >> self._shift).astype(np.int64), minlength=self._slots)
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)

    @cached_property
    def _marks(self) -> np.ndarray:
        """A bit for each value of the first bits of hashes, `_MORE_BITS` more than those of a slot: whether a hash has it."""
        marked = np.zeros(self._slots << int(_MORE_BITS), np.bool_)
        marked[self.hashes >> (self._shift - _MORE_BITS)] = True
        return np.packbits(marked, bitorder="little")

    def __getstate__(self) -> dict[str, object]:
        return {"hashes": self.hashes}
