"""Distinct tokens with numbers: a hash table of byte strings that grows."""

from __future__ import annotations

from typing import Any

import numpy as np

from lance_spark.kernels.kernel import kernel

_FIRST_SLOTS = 1 << 12
_FREE = -1


class Words:
    """Byte strings, numbered in the order in which they first come."""

    def __init__(self) -> None:
        self._keys = np.empty(_FIRST_SLOTS * 8, np.uint8)
        self._bounds = np.zeros(_FIRST_SLOTS, np.int64)
        self._hashes = np.empty(_FIRST_SLOTS, np.uint64)
        self._slots = np.full(_FIRST_SLOTS, _FREE, np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def text(self, number: int) -> str:
        """The string with this number, which is UTF-8."""
        return self._keys[self._bounds[number] : self._bounds[number + 1]].tobytes().decode(errors="replace")

    def numbers(self, data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """The numbers (int64) of the strings `data[starts[i]:ends[i]]`; new ones are added."""
        out = np.empty(len(starts), np.int64)
        longest = int((ends - starts).max(initial=0))
        done = 0
        while done < len(starts):
            done, self._count = _number(
                data, starts, ends, done, out, self._keys, self._bounds, self._hashes, self._slots, self._count, longest
            )
            if done < len(starts):
                self._grow(longest)
        return out

    def _grow(self, longest: int) -> None:
        """Make room for twice as many strings and bytes, and for the longest."""
        keys = np.empty(2 * len(self._keys) + longest, np.uint8)
        keys[: self._bounds[self._count]] = self._keys[: self._bounds[self._count]]
        bounds, hashes = np.zeros(2 * len(self._bounds), np.int64), np.empty(2 * len(self._hashes), np.uint64)
        bounds[: self._count + 1] = self._bounds[: self._count + 1]
        hashes[: self._count] = self._hashes[: self._count]
        self._keys, self._bounds, self._hashes = keys, bounds, hashes
        self._slots = np.full(2 * len(self._slots), _FREE, np.int64)
        _place(self._hashes, self._count, self._slots)


@kernel
def _hash(data: np.ndarray, start: int, end: int) -> np.uint64:
    value = np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(end - start)
    for i in range(start, end):
        value = (value ^ np.uint64(data[i])) * np.uint64(0x100000001B3)
    value ^= value >> np.uint64(29)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    return value ^ (value >> np.uint64(32))


@kernel
def _number(
    data: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    done: int,
    out: np.ndarray,
    keys: np.ndarray,
    bounds: np.ndarray,
    hashes: np.ndarray,
    slots: np.ndarray,
    count: int,
    longest: int,
) -> Any:
    """Number the strings from `done` on; how many are numbered, which may be fewer if there is no room, and the number of strings."""
    mask = len(slots) - 1
    for i in range(done, len(starts)):
        # Half of the slots stay free, and the bounds need one entry more than there are strings.
        if 2 * count >= len(slots) or count + 2 > len(bounds) or bounds[count] + longest > len(keys):
            return i, count
        start, end = starts[i], ends[i]
        value = _hash(data, start, end)
        slot = np.int64(value & np.uint64(mask))
        while True:
            known = slots[slot]
            if known < 0:
                slots[slot], hashes[count] = count, value
                first = bounds[count]
                for k in range(end - start):
                    keys[first + k] = data[start + k]
                bounds[count + 1] = first + end - start
                out[i] = count
                count += 1
                break
            if hashes[known] == value and bounds[known + 1] - bounds[known] == end - start:
                first, same = bounds[known], True
                for k in range(end - start):
                    if keys[first + k] != data[start + k]:
                        same = False
                        break
                if same:
                    out[i] = known
                    break
            slot = (slot + 1) & mask
    return len(starts), count


@kernel
def _place(hashes: np.ndarray, count: int, slots: np.ndarray) -> None:
    mask = len(slots) - 1
    for i in range(count):
        slot = np.int64(hashes[i] & np.uint64(mask))
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = i
