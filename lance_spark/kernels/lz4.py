"""Decoding LZ4 blocks (https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md), many at once.

pyarrow decodes blocks one by one, and returns uninitialised memory without an error if a block is shorter than expected.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import U, copy, copy_words

MAX_RATIO = 255
"""Maximum ratio of decoded to stored size: every byte of a long length adds at most 255."""


@kernel
def decompress_blocks(data: np.ndarray, starts: np.ndarray, sizes: np.ndarray, out: np.ndarray, bounds: np.ndarray) -> int:
    """Decode the blocks of `sizes` bytes at `starts` in `data`; block b must fill `out[bounds[b]:bounds[b + 1]]` exactly.

    Returns the number of the first invalid block, or -1.
    """
    for b in range(len(starts)):
        start = U(starts[b])
        if not _decompress(data, start, start + U(sizes[b]), out, U(bounds[b]), U(bounds[b + 1])):
            return b
    return -1


@kernel
def _decompress(data: np.ndarray, at: np.uint64, end: np.uint64, out: np.ndarray, begin: np.uint64, limit: np.uint64) -> bool:
    """Decode the block `data[at:end]` to `out[begin:limit]`: sequences of literals and a match, the last without a match."""
    place = begin
    while at < end:
        token = U(data[at])
        at += U(1)
        literals = token >> U(4)
        if literals < U(15) and end - at > U(24) and limit - place > U(24):
            # This may copy too many bytes; later output overwrites the surplus.
            copy_words(data, at, out, place, U(16))
        else:
            literals, at = _length(data, at, end, literals)
            if literals > end - at or literals > limit - place:
                return False
            copy(data, at, out, place, literals)
        at += literals
        place += literals
        if at == end:
            return bool(place == limit)
        if end - at < U(2):
            return False
        distance = U(data[at]) | U(data[at + U(1)]) << U(8)
        length, at = _length(data, at + U(2), end, token & U(15))
        length += U(4)
        if distance == U(0) or distance > place - begin or length > limit - place:
            return False
        if distance >= U(8) and limit - place > length + U(24):
            copy_words(out, place - distance, out, place, max(length, U(24)))
        else:
            _copy_match(out, place, distance, length)
        place += length
    return False


@kernel
def _length(data: np.ndarray, at: np.uint64, end: np.uint64, nibble: np.uint64) -> tuple[np.uint64, np.uint64]:
    """A length that begins in a token, and the position after it. If it is truncated, the check of what follows fails."""
    length = nibble
    if nibble == U(15):
        more = U(255)
        while more == U(255) and at < end:
            more = U(data[at])
            at += U(1)
            length += more
    return length, at


@kernel
def _copy_match(out: np.ndarray, place: np.uint64, distance: np.uint64, size: np.uint64) -> None:
    # A match may overlap its own output, which repeats its first `distance` bytes: so copy byte by byte.
    start = place - distance
    for i in range(size):
        out[place + U(i)] = out[start + U(i)]
