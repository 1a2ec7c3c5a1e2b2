"""What bounds the scores of the documents of a block: pairs of a frequency and a length that no other document of the block beats.

A pair stands for all documents with at most this frequency and at least this length. The entry of a block is the number of its last
document, the number of pairs, and the pairs in ascending order, all varints but the distances of lengths, which are one byte: lengths
are rounded down to 4 bits of precision. The entries of the blocks of a list come first, those of groups of 32 blocks follow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lance_spark.index.text.build.pack import put_varint
from lance_spark.kernels.kernel import kernel

_GROUP = 32
"""Blocks with an entry for all of them."""

_COMMON = 256
"""Frequencies below this have a place in a table."""

_PAIR_BYTES = 6
_ENTRY_BYTES = 10
_PAIRS = 256
"""The most pairs of an entry: lengths have so many rounded values, and each is there once."""


def impacts(
    bounds: np.ndarray, documents: np.ndarray, frequencies: np.ndarray, lengths: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The entries of posting lists with blocks of `size` documents: their bytes, the bounds of each, and those of the lists, in entries.

    `lengths` are those of all documents of the partition.
    """
    counts = np.diff(bounds)
    entries = -(-counts // size) + -(-counts // (size * _GROUP))
    entry_bounds = np.zeros(int(entries.sum()) + 1, np.int64)
    # A document is a pair of at most two entries.
    most = _ENTRY_BYTES * len(entry_bounds) + _PAIR_BYTES * 2 * min(len(documents), _PAIRS * len(entry_bounds))
    out = np.empty(most, np.uint8)
    used = _impacts(bounds, documents, frequencies, lengths, size, out, entry_bounds)
    return out[:used], entry_bounds, np.concatenate([[0], np.cumsum(entries)])


@kernel
def _impacts(
    bounds: np.ndarray,
    documents: np.ndarray,
    frequencies: np.ndarray,
    lengths: np.ndarray,
    size: int,
    out: np.ndarray,
    entry_bounds: np.ndarray,
) -> Any:
    at: Any = 0
    entry = 0
    shortest = np.full(_COMMON, np.uint32(0xFFFFFFFF), np.uint32)
    for token in range(len(bounds) - 1):
        for step in (size, size * _GROUP):
            for low in range(bounds[token], bounds[token + 1], step):
                high = min(low + step, bounds[token + 1])
                at = put_varint(np.uint64(documents[high - 1]), out, at)
                at = _pairs(documents[low:high], frequencies[low:high], lengths, shortest, out, at)
                entry += 1
                entry_bounds[entry] = at
    return at


@kernel
def _pairs(documents: np.ndarray, frequencies: np.ndarray, lengths: np.ndarray, shortest: np.ndarray, out: np.ndarray, at: int) -> int:
    """Write the number of pairs and the pairs of some documents."""
    highest: Any = 0
    rare = 0
    for i in range(len(documents)):
        own = np.int64(frequencies[i])
        if own < _COMMON:
            shortest[own] = min(shortest[own], lengths[documents[i]])
            highest = max(highest, own)
        else:
            rare += 1
    kept, norms = np.empty(_PAIRS, np.int64), np.empty(_PAIRS, np.int64)
    count = 0
    least: Any = np.int64(0xFFFFFFFF) + 1
    if rare:
        keys = np.empty(rare, np.uint64)
        rare = 0
        for i in range(len(documents)):
            if frequencies[i] >= _COMMON:
                # Descending frequencies, and ascending lengths.
                keys[rare] = (np.uint64(0xFFFFFFFF) - np.uint64(frequencies[i])) << np.uint64(32) | np.uint64(lengths[documents[i]])
                rare += 1
        keys.sort()
        for key in keys:
            length: Any = np.int64(key & np.uint64(0xFFFFFFFF))
            frequency: Any = np.int64(np.uint64(0xFFFFFFFF) - (key >> np.uint64(32)))
            if length < least:
                least = length
                count = _keep(kept, norms, count, frequency, length)
    for i in range(highest):
        f: Any = highest - i
        length = np.int64(shortest[f])
        shortest[f] = np.uint32(0xFFFFFFFF)
        if length < least and length != 0xFFFFFFFF:
            least = length
            count = _keep(kept, norms, count, f, length)
    at = put_varint(np.uint64(count), out, at)
    before: Any = 0
    norm: Any = 0
    for i in range(count):
        pair, rounded_length = kept[count - 1 - i], norms[count - 1 - i]
        explicit = rounded_length - norm != 1
        at = put_varint(np.uint64((pair - before - 1) << 1 | (1 if explicit else 0)), out, at)
        if explicit:
            out[at] = rounded_length - norm
            at += 1
        before, norm = pair, rounded_length
    return at


@kernel
def _keep(kept: np.ndarray, norms: np.ndarray, count: int, frequency: int, length: int) -> int:
    """Add a pair unless the one before, which has a higher frequency, has the same rounded length; the number of pairs."""
    norm = rounded(length)
    if count and norms[count - 1] == norm:
        return count
    kept[count], norms[count] = frequency, norm
    return count + 1


@kernel
def rounded(length: int) -> int:
    """The length of a document with 4 bits of precision, as one byte: up to 7 itself, else 3 bits below the upper one, and a shift."""
    bits = 0
    while length >> bits:
        bits += 1
    return length if bits < 4 else (length >> (bits - 4)) & 7 | (bits - 3) << 3
