"""XXH64, the hash of bloom filters and of signatures (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md)."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import U, load32, load64

P1 = U(11400714785074694791)
P2 = U(14029467366897019727)
P3 = U(1609587929392839161)
P4 = U(9650029242287828579)
P5 = U(2870177450012600261)
_START1, _START4 = U(6983438078262162902), U(7046029288634856825)
"""What the seed is added to in the first and the last accumulator: P1 + P2 and -P1."""


@kernel
def xxh64(data: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
    """Store in `out` (uint64) the hash of each value, with the seed 0; value i is `data[offsets[i]:offsets[i + 1]]`.

    `data` are bytes; `offsets` (int64) ascend and lie within `data`.
    """
    for i in range(len(out)):
        out[i] = hash_of(data, U(offsets[i]), U(offsets[i + 1]), U(0))


@kernel
def _rotated(x: np.uint64, by: np.uint64) -> np.uint64:
    return x << by | x >> (U(64) - by)


@kernel
def _round(lane: np.uint64, word: np.uint64) -> np.uint64:
    return _rotated(lane + word * P2, U(31)) * P1


@kernel
def _merged(hashed: np.uint64, lane: np.uint64) -> np.uint64:
    return (hashed ^ _round(U(0), lane)) * P1 + P4


@kernel
def hash_of(data: np.ndarray, at: np.uint64, stop: np.uint64, seed: np.uint64) -> np.uint64:
    """The hash of the bytes `data[at:stop]`, which the caller has checked to exist."""
    size = stop - at
    if size >= U(32):
        a, b, c, d = seed + _START1, seed + P2, seed, seed + _START4
        while stop - at >= U(32):
            a = _round(a, load64(data, at))
            b = _round(b, load64(data, at + U(8)))
            c = _round(c, load64(data, at + U(16)))
            d = _round(d, load64(data, at + U(24)))
            at += U(32)
        hashed = _rotated(a, U(1)) + _rotated(b, U(7)) + _rotated(c, U(12)) + _rotated(d, U(18))
        hashed = _merged(_merged(_merged(_merged(hashed, a), b), c), d)
    else:
        hashed = seed + P5
    hashed += size
    while stop - at >= U(8):
        hashed = _rotated(hashed ^ _round(U(0), load64(data, at)), U(27)) * P1 + P4
        at += U(8)
    if stop - at >= U(4):
        hashed = _rotated(hashed ^ U(load32(data, at)) * P1, U(23)) * P2 + P3
        at += U(4)
    while at < stop:
        hashed = _rotated(hashed ^ U(data[at]) * P5, U(11)) * P1
        at += U(1)
    hashed = (hashed ^ hashed >> U(33)) * P2
    hashed = (hashed ^ hashed >> U(29)) * P3
    return hashed ^ hashed >> U(32)
