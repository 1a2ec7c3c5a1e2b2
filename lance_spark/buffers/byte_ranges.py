"""Planning of ranged reads: merge nearby ranges, then slice the answers. No I/O."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

Bytes = np.ndarray
"""Raw bytes of a file: a read-only uint8 array."""


class ByteRange(NamedTuple):
    """Bytes `start` (inclusive) to `stop` (exclusive) of a file."""

    start: int
    stop: int


def coalesce(ranges: Sequence[ByteRange], max_gap: int, max_size: int) -> list[ByteRange]:
    """The fewest reads that cover `ranges`: those at most `max_gap` bytes apart are merged, up to `max_size` bytes per read.

    A range larger than `max_size` is one read. The result is sorted, and overlaps only where `max_size` ended a read.
    """
    merged: list[ByteRange] = []
    first = last = 0
    for start, stop in sorted(set(ranges)):
        if stop <= start:
            continue
        end = max(stop, last)
        if last and (stop <= last or (start <= last + max_gap and end - first <= max_size)):
            last = end
            continue
        if last:
            merged.append(ByteRange(first, last))
        first, last = start, stop
    if last:
        merged.append(ByteRange(first, last))
    return merged


def cut(ranges: Sequence[ByteRange], reads: Sequence[ByteRange], answers: Sequence[Bytes]) -> list[Bytes]:
    """The bytes of each of `ranges`, as views into the `answers` that were read for `reads` (the result of `coalesce`)."""
    # Reads are sorted by start; only the last one that begins at or before a range can contain it.
    starts = [start for start, _ in reads]
    empty = np.empty(0, dtype=np.uint8)
    out = []
    for start, stop in ranges:
        if stop <= start:
            out.append(empty)
            continue
        i = bisect.bisect_right(starts, start) - 1
        out.append(answers[i][start - starts[i] : stop - starts[i]])
    return out
