"""MurmurHash3 x86_32 with seed 0, the hash of bucket partitions (https://github.com/aappleby/smhasher, public domain)."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.kernel import kernel


@kernel
def _rotated(value: int, by: int) -> int:
    value &= 0xFFFFFFFF
    return ((value << by) | (value >> (32 - by))) & 0xFFFFFFFF


@kernel
def _mixed(word: int) -> int:
    return (_rotated(word * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593) & 0xFFFFFFFF


@kernel
def _word(data: np.ndarray, at: int) -> int:
    word = np.int64(data[at]) | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2]) << 16 | np.int64(data[at + 3]) << 24
    return int(word)


@kernel
def _added(hashed: int, word: int) -> int:
    return (_rotated(hashed ^ _mixed(word), 13) * 5 + 0xE6546B64) & 0xFFFFFFFF


@kernel
def _finished(hashed: int, size: int) -> int:
    hashed ^= size
    hashed ^= hashed >> 16
    hashed = (hashed * 0x85EBCA6B) & 0xFFFFFFFF
    hashed ^= hashed >> 13
    hashed = (hashed * 0xC2B2AE35) & 0xFFFFFFFF
    hashed ^= hashed >> 16
    return hashed if hashed < 2**31 else hashed - 2**32


@kernel
def murmur3(data: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
    """Store in `out` (int64) the signed hash of each value; value i is `data[offsets[i]:offsets[i + 1]]`.

    `data` are bytes; `offsets` (int64) ascend and lie within `data`.
    """
    for i in range(len(out)):
        start, stop = offsets[i], offsets[i + 1]
        size = stop - start
        hashed = 0
        at = start
        while at + 4 <= stop:
            hashed = _added(hashed, _word(data, at))
            at += 4
        if at < stop:
            word = np.int64(0)
            for j in range(stop - at):
                word |= np.int64(data[at + j]) << (8 * j)
            hashed ^= _mixed(int(word))
        out[i] = _finished(hashed, size)


@kernel
def murmur3_of_words(data: np.ndarray, offsets: np.ndarray, out: np.ndarray) -> None:
    """As `murmur3`, but each byte after the last whole word is a word of its own, as a signed number. Spark hashes so, too."""
    for i in range(len(out)):
        at, stop = offsets[i], offsets[i + 1]
        size = stop - at
        hashed = 0
        while at + 4 <= stop:
            hashed = _added(hashed, _word(data, at))
            at += 4
        while at < stop:
            byte = np.int64(data[at])
            hashed = _added(hashed, int(byte if byte < 128 else byte + 0xFFFFFF00))
            at += 1
        out[i] = _finished(hashed, size)
