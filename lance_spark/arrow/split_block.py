"""Split-block bloom filters, those of Parquet, of many zones at once (https://parquet.apache.org/docs/file-format/bloomfilter/).

A filter is a number of blocks of eight 32-bit words. The upper half of a value's hash chooses the block, the lower half one bit in each
of its words.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pyarrow as pa

from lance_spark.arrow.texts import bytes_of
from lance_spark.arrow.types import is_bytes
from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import U32, U
from lance_spark.kernels.xxh64 import xxh64

BLOCK_BYTES = 32
_SALT = np.array([0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32)
_MIN_LOG, _MAX_LOG = 5, 27
"""Logarithms of the least and the largest size of a filter in bytes: one block, and 128 MiB."""
_TERMS = 750
"""Terms of the sum in `_false_positives`, whose mean is at most 512: those after them are more than ten standard deviations away."""


@cache
def filter_bytes(values: int, probability: float) -> int:
    """The size of a filter in bytes: the least power of two, from 2^5 to 2^27, with at most this probability of a false positive."""
    logs = range(_MIN_LOG, _MAX_LOG)
    return 1 << next((log for log in logs if _false_positives(values, 1 << log) <= probability), _MAX_LOG)


def _false_positives(values: int, size: int) -> float:
    """The rate of false positives (Putze et al., "Cache-, Hash- and Space-Efficient Bloom Filters", equation 3)."""
    if not values:
        return 0.0
    if values / (size * 8) > 2:
        return 1.0
    per_block = 256 / (size * 8 / values)
    i = np.arange(1, _TERMS)
    factorials = np.cumsum(np.log(i))
    # A block has 8 words of 32 bits, in each of which a value sets one bit.
    all_set = 8 * np.log1p(-((1 - 1 / 32) ** i))
    terms = i * math.log(per_block) - per_block - factorials + all_set
    return min(float(np.exp(terms).sum()), 1.0)


def hashes(values: pa.Array) -> np.ndarray:
    """The hash of each value: of its little-endian bytes, or of the bytes of a text. The hashes of nulls mean nothing.

    Floats are hashed by their bits, so -0.0 and 0.0 differ, as do NaNs.
    """
    out = np.empty(len(values), np.uint64)
    if is_bytes(values.type):
        xxh64(*bytes_of(values), out)
        return out
    values = pa.concat_arrays([values])  # from offset 0
    data = values.buffers()[-1]
    offsets = np.arange(len(values) + 1, dtype=np.int64) * (values.type.bit_width // 8)
    is_empty = data is None or not data.size
    xxh64(np.zeros(0, np.uint8) if is_empty else np.frombuffer(data, np.uint8), offsets, out)
    return out


def make_filter(hashed: np.ndarray, size: int) -> bytes:
    """The filter of `size` bytes with the given hashes."""
    words = np.zeros(size // 4, np.uint32)
    insert(words, hashed)
    return to_bytes(words)


def insert(words: np.ndarray, hashed: np.ndarray) -> None:
    """Add hashes to the filter with these words (uint32), eight for each block."""
    _insert(words, hashed, _SALT)


def to_bytes(words: np.ndarray) -> bytes:
    """The filter with these words, as it is stored."""
    return words.astype("<u4", copy=False).tobytes()


def may_contain(filters: np.ndarray, bounds: np.ndarray, hashed: np.ndarray) -> np.ndarray:
    """For each filter whether it may contain one of the hashes.

    Filter i is the bytes `filters[bounds[i]:bounds[i + 1]]`, a multiple of 32 of them. An empty filter contains nothing.
    """
    out = np.zeros(len(bounds) - 1, np.bool_)
    first, last = int(bounds[0]), int(bounds[-1])
    words = np.frombuffer(filters[first:last].tobytes(), "<u4").astype(np.uint32, copy=False)
    _check(words, (bounds - first) // 4, hashed, _SALT, out)
    return out


@kernel
def _bit(hashed: np.uint64, salt: np.uint32) -> np.uint32:
    return U32(1) << (U32(U32(hashed & U(0xFFFFFFFF)) * salt) >> U32(27))


@kernel
def _insert(words: np.ndarray, hashed: np.ndarray, salt: np.ndarray) -> None:
    blocks = U(len(words) // 8)
    for h in hashed:
        block = ((h >> U(32)) * blocks) >> U(32)
        for i in range(8):
            words[block * U(8) + U(i)] |= _bit(h, salt[i])


@kernel
def _check(words: np.ndarray, bounds: np.ndarray, hashed: np.ndarray, salt: np.ndarray, out: np.ndarray) -> None:
    for f in range(len(out)):
        start = U(bounds[f])
        blocks = U((bounds[f + 1] - bounds[f]) // 8)
        if blocks == U(0):
            continue
        for h in hashed:
            block = ((h >> U(32)) * blocks) >> U(32)
            there = True
            for i in range(8):
                bit = _bit(h, salt[i])
                there = there and (words[start + block * U(8) + U(i)] & bit) == bit
            if there:
                out[f] = True
                break
