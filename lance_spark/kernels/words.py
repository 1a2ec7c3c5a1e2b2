"""Raw bytes in kernels: little-endian words at any address, and copies.

All indices here are unsigned. For signed ones, numba adds a test for negative values, which prevents the compiler from merging byte
accesses into one word access and from vectorising copies, a factor of 4 to 20. Never mix signed and unsigned integers in an expression:
their sum is a float.
"""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.kernel import kernel

U = np.uint64
U32 = np.uint32
BYTE = U(255)


@kernel
def load16(data: np.ndarray, at: np.uint64) -> np.uint32:
    """The 2 bytes of `data` at `at`."""
    return U32(data[at]) | U32(data[at + U(1)]) << U32(8)


@kernel
def load32(data: np.ndarray, at: np.uint64) -> np.uint32:
    """The 4 bytes of `data` at `at`."""
    low = U32(data[at]) | U32(data[at + U(1)]) << U32(8)
    return low | U32(data[at + U(2)]) << U32(16) | U32(data[at + U(3)]) << U32(24)


@kernel
def load64(data: np.ndarray, at: np.uint64) -> np.uint64:
    """The 8 bytes of `data` at `at`."""
    low = U(data[at]) | U(data[at + U(1)]) << U(8) | U(data[at + U(2)]) << U(16) | U(data[at + U(3)]) << U(24)
    high = U(data[at + U(4)]) << U(32) | U(data[at + U(5)]) << U(40) | U(data[at + U(6)]) << U(48)
    return low | high | U(data[at + U(7)]) << U(56)


@kernel
def store16(data: np.ndarray, at: np.uint64, word: np.uint32) -> None:
    """Write the lower half of `word` to the 2 bytes of `data` at `at`."""
    data[at] = word & U32(255)
    data[at + U(1)] = (word >> U32(8)) & U32(255)


@kernel
def store32(data: np.ndarray, at: np.uint64, word: np.uint32) -> None:
    """Write `word` to the 4 bytes of `data` at `at`."""
    data[at] = word & U32(255)
    data[at + U(1)] = (word >> U32(8)) & U32(255)
    data[at + U(2)] = (word >> U32(16)) & U32(255)
    data[at + U(3)] = (word >> U32(24)) & U32(255)


@kernel
def store64(data: np.ndarray, at: np.uint64, word: np.uint64) -> None:
    """Write `word` to the 8 bytes of `data` at `at`."""
    data[at] = word & BYTE
    data[at + U(1)] = (word >> U(8)) & BYTE
    data[at + U(2)] = (word >> U(16)) & BYTE
    data[at + U(3)] = (word >> U(24)) & BYTE
    data[at + U(4)] = (word >> U(32)) & BYTE
    data[at + U(5)] = (word >> U(40)) & BYTE
    data[at + U(6)] = (word >> U(48)) & BYTE
    data[at + U(7)] = (word >> U(56)) & BYTE


@kernel
def copy(source: np.ndarray, start: np.uint64, out: np.ndarray, at: np.uint64, size: np.uint64) -> None:
    """Write `size` bytes of `source` from `start` to `out` at `at`."""
    for i in range(size):
        out[at + U(i)] = source[start + U(i)]


@kernel
def copy_words(source: np.ndarray, start: np.uint64, out: np.ndarray, at: np.uint64, size: np.uint64) -> None:
    """Like `copy`, but 8 bytes at a time: faster for short ranges; reads and writes up to 7 bytes more."""
    for i in range(U(0), size, U(8)):
        store64(out, at + U(i), load64(source, start + U(i)))


@kernel
def copy_ranges(source: np.ndarray, starts: np.ndarray, sizes: np.ndarray, out: np.ndarray) -> None:
    """Write the ranges of `sizes` bytes at `starts` in `source` to `out`, one after the other."""
    at = U(0)
    for r in range(len(starts)):
        size = U(sizes[r])
        copy(source, U(starts[r]), out, at, size)
        at += size
