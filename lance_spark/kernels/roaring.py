"""Portable roaring bitmaps of many sets at once (https://github.com/RoaringBitmap/RoaringFormatSpec).

A bitmap has 32-bit numbers, in containers of those with the same upper 16 bits: a sorted array of at most 4096 numbers, 8192 bytes of
bits, or runs. Sets are of 64-bit numbers: the upper halves, each with a bitmap of the lower halves, in one of the two forms of
`index.row_sets`. Set i is `numbers[bounds[i]:bounds[i + 1]]`, ascending.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import U32, U, load16, load32, store16, store32

I: Any = np.int64
"""Signed integers: unsigned and signed ones never mix."""

_PLAIN, _RUNS = 12346, 12347
_MOST_IN_ARRAY = 4096
_BITS_BYTES = 8192
_OFFSETS_FROM = 4
"""Bitmaps with runs have the places of their containers only if there are so many."""


@kernel
def measure(numbers: np.ndarray, bounds: np.ndarray, sized: bool, sizes: np.ndarray) -> None:
    """Store the number of bytes that `write` needs for each set."""
    for i in range(len(sizes)):
        size = 4 if sized else 8
        at, stop = bounds[i], bounds[i + 1]
        while at < stop:
            at, containers, has_runs, content = _bitmap(numbers, at, stop)
            size += (8 if sized else 4) + _head_bytes(containers, has_runs) + content
        sizes[i] = size


@kernel
def write(numbers: np.ndarray, bounds: np.ndarray, sized: bool, places: np.ndarray, out: np.ndarray) -> None:
    """Write set i to `out`, whose bytes are 0, at `places[i]`."""
    for i in range(len(bounds) - 1):
        at, stop = bounds[i], bounds[i + 1]
        place = places[i] + (4 if sized else 8)
        count = 0
        while at < stop:
            head = place
            store32(out, U(head), U32(numbers[at] >> U(32)))
            place += 8 if sized else 4
            start = place
            at, place = _write_bitmap(numbers, at, stop, out, place)
            if sized:
                store32(out, U(head + 4), U32(place - start))
            count += 1
        store32(out, U(places[i]), U32(count))


@kernel
def _container(numbers: np.ndarray, at: int, stop: int) -> tuple[int, int]:
    """The position after the container that starts at `at`, and its number of runs."""
    key = numbers[at] >> U(16)
    runs = 1
    at += 1
    while at < stop and numbers[at] >> U(16) == key:
        if numbers[at] != numbers[at - 1] + U(1):
            runs += 1
        at += 1
    return at, runs


@kernel
def _plain_bytes(count: int) -> int:
    return 2 * count if count <= _MOST_IN_ARRAY else _BITS_BYTES


@kernel
def _head_bytes(containers: int, has_runs: bool) -> int:
    if not has_runs:
        return 8 + 8 * containers
    return 4 + (containers + 7) // 8 + (8 if containers >= _OFFSETS_FROM else 4) * containers


@kernel
def _bitmap(numbers: np.ndarray, at: int, stop: int) -> tuple[int, int, bool, int]:
    """The bitmap that starts at `at`: the position after it, its containers, whether some have runs, and the bytes of all of them."""
    high = numbers[at] >> U(32)
    containers, content, has_runs = 0, 0, False
    while at < stop and numbers[at] >> U(32) == high:
        end, runs = _container(numbers, at, stop)
        size = min(2 + 4 * runs, _plain_bytes(end - at))
        has_runs = has_runs or size < _plain_bytes(end - at)
        content += size
        containers += 1
        at = end
    return at, containers, has_runs, content


@kernel
def _write_bitmap(numbers: np.ndarray, at: int, stop: int, out: np.ndarray, start: int) -> tuple[int, int]:
    """Write the bitmap that starts at `at`; returns the position after it, and the place after it in `out`."""
    last, containers, has_runs, _ = _bitmap(numbers, at, stop)
    place = start + _head_bytes(containers, has_runs)
    if has_runs:
        store32(out, U(start), U32(_RUNS) | U32(containers - 1) << U32(16))
        heads = start + 4 + (containers + 7) // 8
    else:
        store32(out, U(start), U32(_PLAIN))
        store32(out, U(start + 4), U32(containers))
        heads = start + 8
    offsets = heads + 4 * containers
    number = 0
    while at < last:
        end, runs = _container(numbers, at, last)
        store16(out, U(heads + 4 * number), U32((numbers[at] >> U(16)) & U(0xFFFF)))
        store16(out, U(heads + 4 * number + 2), U32(end - at - 1))
        if not has_runs or containers >= _OFFSETS_FROM:
            store32(out, U(offsets + 4 * number), U32(place - start))
        if 2 + 4 * runs < _plain_bytes(end - at):
            out[start + 4 + number // 8] |= np.uint8(1 << (number % 8))
            place = _write_runs(numbers, at, end, runs, out, place)
        else:
            place = _write_plain(numbers, at, end, out, place)
        number += 1
        at = end
    return last, place


@kernel
def _write_runs(numbers: np.ndarray, at: int, end: int, runs: int, out: np.ndarray, place: int) -> int:
    store16(out, U(place), U32(runs))
    place += 2
    while at < end:
        first = at
        at += 1
        while at < end and numbers[at] == numbers[at - 1] + U(1):
            at += 1
        store16(out, U(place), U32(numbers[first] & U(0xFFFF)))
        store16(out, U(place + 2), U32(at - first - 1))
        place += 4
    return place


@kernel
def _write_plain(numbers: np.ndarray, at: int, end: int, out: np.ndarray, place: int) -> int:
    if end - at <= _MOST_IN_ARRAY:
        for i in range(at, end):
            store16(out, U(place + 2 * (i - at)), U32(numbers[i] & U(0xFFFF)))
    else:
        for i in range(at, end):
            low = I(numbers[i] & U(0xFFFF))
            out[place + low // 8] |= np.uint8(1 << (low % 8))
    return place + _plain_bytes(end - at)


@kernel
def read(data: np.ndarray, bounds: np.ndarray, sized: bool, ids: np.ndarray, rows: np.ndarray, counts: np.ndarray, out: np.ndarray) -> int:
    """Store the number of rows of each set in `counts`, and all of them in `out` if it is not empty.

    Set i is the bytes `data[bounds[i]:bounds[i + 1]]`. `ids`, ascending, are upper halves with a number of `rows`: a bitmap of size 0
    stands for all of them. Returns the number of the first set that is invalid, or -1. The first call checks everything but the order
    of the numbers in arrays, so that `out` can have the size that it counts.
    """
    place = 0
    for i in range(len(bounds) - 1):
        at, stop = bounds[i], bounds[i + 1]
        first = 4 if sized else 8
        if stop - at < first or (not sized and load32(data, U(at + 4)) != U32(0)):
            return i
        entries, before, last = I(load32(data, U(at))), place, I(-1)
        at += first
        for _ in range(entries):
            if stop - at < (8 if sized else 4):
                return i
            high = I(load32(data, U(at)))
            size = I(load32(data, U(at + 4))) if sized else I(-1)
            at += 8 if sized else 4
            if high <= last or size > stop - at:
                return i
            last = high
            if size == 0:
                place = _all_rows(high, ids, rows, out, place)
                continue
            end, place = _read_bitmap(data, at, at + size if sized else stop, high, out, place)
            if end < 0 or (sized and end != at + size):
                return i
            at = end
        if at != stop:
            return i
        counts[i] = place - before
    return -1


@kernel
def _all_rows(high: int, ids: np.ndarray, rows: np.ndarray, out: np.ndarray, place: int) -> int:
    at = np.searchsorted(ids, high)
    if at == len(ids) or ids[at] != high:
        return place
    if len(out):
        for i in range(rows[at]):
            out[place + i] = U(high) << U(32) | U(i)
    place += rows[at]
    return place


@kernel
def _read_bitmap(data: np.ndarray, at: int, stop: int, high: int, out: np.ndarray, place: int) -> tuple[int, int]:
    """The place after the bitmap at `at`, -1 if it is invalid, and the place after its numbers in `out`."""
    if stop - at < 8:
        return -1, place
    first = I(load32(data, U(at)))
    has_runs = first & 0xFFFF == _RUNS
    if not has_runs and first != _PLAIN:
        return -1, place
    containers = (first >> 16) + 1 if has_runs else I(load32(data, U(at + 4)))
    marks = at + 4
    heads = marks + (containers + 7) // 8 if has_runs else at + 8
    if containers > 1 << 16 or at + _head_bytes(containers, has_runs) > stop:
        return -1, place
    at += _head_bytes(containers, has_runs)
    last = I(-1)
    for i in range(containers):
        key, count = I(load16(data, U(heads + 4 * i))), I(load16(data, U(heads + 4 * i + 2))) + 1
        if key <= last:
            return -1, place
        last = key
        base = U(high) << U(32) | U(key) << U(16)
        if has_runs and data[marks + i // 8] >> np.uint8(i % 8) & np.uint8(1):
            at, place = _read_runs(data, at, stop, base, out, place)
        else:
            at, place = _read_plain(data, at, stop, count, base, out, place)
        if at < 0:
            return -1, place
    return at, place


@kernel
def _read_runs(data: np.ndarray, at: int, stop: int, base: np.uint64, out: np.ndarray, place: int) -> tuple[int, int]:
    if stop - at < 2:
        return -1, place
    runs = I(load16(data, U(at)))
    at += 2
    if stop - at < 4 * runs:
        return -1, place
    free = I(0)
    for _ in range(runs):
        first, count = I(load16(data, U(at))), I(load16(data, U(at + 2))) + 1
        if first < free or first + count > 1 << 16:
            return -1, place
        if len(out):
            for i in range(count):
                out[place + i] = base | U(first + i)
        place += count
        free = first + count
        at += 4
    return at, place


@kernel
def _read_plain(data: np.ndarray, at: int, stop: int, count: int, base: np.uint64, out: np.ndarray, place: int) -> tuple[int, int]:
    size = _plain_bytes(count)
    if stop - at < size:
        return -1, place
    if not len(out):
        return at + size, place + count
    if count <= _MOST_IN_ARRAY:
        last = I(-1)
        for i in range(count):
            low = I(load16(data, U(at + 2 * i)))
            if low <= last:
                return -1, place
            last = low
            out[place + i] = base | U(low)
        return at + size, place + count
    end = place + count
    for i in range(_BITS_BYTES):
        byte = data[at + i]
        for bit in range(8):
            if byte >> np.uint8(bit) & np.uint8(1):
                if place == end:
                    return -1, place
                out[place] = base | U(8 * i + bit)
                place += 1
    return (at + size if place == end else -1), place
