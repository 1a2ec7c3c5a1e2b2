"""The blocks of posting lists: the documents with a token, and how often each has it.

A block has 128 documents, in lists of larger blocks 256: the number of the first, then the distances between them and the frequencies,
both bit-packed. The last block may have fewer and is not packed. Values are packed in 4 lanes (8 in larger blocks): value i is in lane
i % lanes, the words of the lanes alternate. Frequencies of larger blocks are packed with the width that most of them need, and the
upper bits of others follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lance_spark.index.text.analysis.parameters import SMALL
from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import load32

_SCORE_BYTES = 4
"""Small blocks start with the largest score in them."""

_ROW = 32
"""Values of a lane."""

U = np.uint64


@dataclass(frozen=True)
class BlockFormat:
    """How the posting lists of an index are stored: documents in a block, and whether the last block has numbers of 32 bits or varints."""

    size: int = SMALL
    has_varints: bool = False


def decode_lists(
    data: np.ndarray, bounds: np.ndarray, lists: np.ndarray, list_bounds: np.ndarray, layout: BlockFormat, documents: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """The documents (uint32, ascending) and the frequencies (uint32) of several lists; None if the blocks are invalid.

    List i has the blocks `lists[i]` to `lists[i + 1]`, and fills the result from `list_bounds[i]` on. Block k is
    `data[bounds[k]:bounds[k + 1]]`. Documents are below `documents`.
    """
    found, frequencies = np.empty(int(list_bounds[-1]), np.uint32), np.empty(int(list_bounds[-1]), np.uint32)
    if (np.diff(lists) != -(-np.diff(list_bounds) // layout.size)).any():
        return None
    out = data, bounds, lists, list_bounds, layout.size, layout.has_varints, documents, found, frequencies
    return (found, frequencies) if _decode_lists(*out) else None


@kernel
def _decode_lists(
    data: np.ndarray,
    bounds: np.ndarray,
    lists: np.ndarray,
    list_bounds: np.ndarray,
    size: int,
    has_varints: bool,
    documents: int,
    out: np.ndarray,
    freqs: np.ndarray,
) -> bool:
    for i in range(len(lists) - 1):
        own = slice(list_bounds[i], list_bounds[i + 1])
        if not _decode(data, bounds[lists[i] : lists[i + 1] + 1], size, has_varints, documents, out[own], freqs[own]):
            return False
    return True


@kernel
def _decode(data: np.ndarray, bounds: np.ndarray, size: int, has_varints: bool, documents: int, out: np.ndarray, freqs: np.ndarray) -> bool:
    last: Any = -1
    for block in range(len(bounds) - 1):
        at, stop, start = bounds[block], bounds[block + 1], block * size
        count = min(size, len(out) - start)
        at += _SCORE_BYTES if size == SMALL else 0
        if count == size:
            at = _full(data, at, stop, out, freqs, start, size)
        elif has_varints:
            at = varints(data, at, stop, out, start, count)
            for i in range(start + 1, start + count):
                out[i] += out[i - 1]
            at = varints(data, at, stop, freqs, start, count) if at >= 0 else at
        else:
            at = _words(data, at, stop, out, freqs, start, count)
        if at != stop:
            return False
        for i in range(start, start + count):
            if np.int64(out[i]) <= last or out[i] >= documents or freqs[i] == 0:
                return False
            last = np.int64(out[i])
    return True


@kernel
def _full(data: np.ndarray, at: int, stop: int, out: np.ndarray, freqs: np.ndarray, start: int, size: int) -> int:
    """Read a full block; where it ends, -1 if it is invalid."""
    if at + 5 > stop:
        return -1
    first = load32(data, U(at))
    at = unpacked(data, at + 4, stop, size, out, start)
    if at < 0:
        return -1
    for i in range(start, start + size):
        first += out[i]
        out[i] = first
    if size == SMALL:
        return unpacked(data, at, stop, size, freqs, start)
    if at + 2 > stop:
        return -1
    width, exceptions = np.uint32(data[at]), np.int64(data[at + 1])
    at = _unpack(data, at + 2, stop, np.int64(width), size, freqs, start)
    upper = np.zeros(1, np.uint32)
    for _ in range(exceptions):
        if at < 0 or at >= stop or width > 31:
            return -1
        place = start + np.int64(data[at])
        at = varints(data, at + 1, stop, upper, 0, 1)
        freqs[place] |= upper[0] << width
    return at


@kernel
def unpacked(data: np.ndarray, at: int, stop: int, size: int, out: np.ndarray, start: int) -> int:
    """Read `size` packed values, whose width is the byte before them, into `out` from `start`; where they end, -1 if they are invalid."""
    return _unpack(data, at + 1, stop, np.int64(data[at]), size, out, start) if at < stop else -1


@kernel
def _unpack(data: np.ndarray, at: int, stop: int, width: Any, size: int, out: np.ndarray, start: int) -> int:
    lanes = size // _ROW
    end: int = at + 4 * lanes * width
    if width > 32 or end > stop:
        return -1
    mask = np.uint32((np.uint64(1) << np.uint64(width)) - np.uint64(1))
    for k in range(_ROW):
        word, shift = k * width // 32, k * width % 32
        for lane in range(lanes):
            value = np.uint32(0)
            if width:
                place = at + 4 * (lanes * word + lane)
                value = load32(data, U(place)) >> np.uint32(shift)
                if shift + width > 32:
                    value |= load32(data, U(place + 4 * lanes)) << np.uint32(32 - shift)
            out[start + k * lanes + lane] = value & mask
    return end


@kernel
def varints(data: np.ndarray, at: int, stop: int, out: np.ndarray, start: int, count: int) -> int:
    """Read `count` varints of at most 32 bits into `out` from `start`; where they end, -1 if they are invalid."""
    for i in range(start, start + count):
        value, shift = np.uint64(0), np.uint64(0)
        while True:
            if at >= stop or shift > np.uint64(28):
                return -1
            byte = np.uint64(data[at])
            at += 1
            value |= (byte & np.uint64(127)) << shift
            shift += np.uint64(7)
            if byte < np.uint64(128):
                break
        out[i] = np.uint32(value)
    return at


@kernel
def _words(data: np.ndarray, at: int, stop: int, out: np.ndarray, freqs: np.ndarray, start: int, count: int) -> int:
    if at + 8 * count > stop:
        return -1
    for i in range(count):
        out[start + i] = load32(data, U(at + 4 * i))
        freqs[start + i] = load32(data, U(at + 4 * (count + i)))
    return at + 8 * count
