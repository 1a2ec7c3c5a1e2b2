"""Comparing a query with single vectors of a partition, which a walk through a graph meets one after another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lance_spark.kernels.kernel import kernel

SQUARES, DOT, COSINE, HAMMING, FROM_TABLE = range(5)
"""What the kernel computes from the numbers of a vector and those of the query."""

OF_METRIC = {"l2": SQUARES, "dot": DOT, "cosine": COSINE, "hamming": HAMMING}

NO_NUMBERS = np.zeros(0, np.float32)
NO_TABLE = np.zeros((0, 0), np.float32)

BIT_COUNTS = np.array([value.bit_count() for value in range(256)])
"""The number of bits of each byte."""


@dataclass(frozen=True)
class Compared:
    """What a query is compared with: `numbers` has a row for each vector.

    The kernel computes one of the above from a row and `query`, or, FROM_TABLE, the sum of `table[i, row[i]]`; times `scale` plus `offset`,
    this is the distance. Every number is one of the table then. A `scale` is at least 0, so that the kernel finds the nearest.
    """

    how: int
    numbers: np.ndarray
    query: np.ndarray
    table: np.ndarray
    scale: float = 1
    offset: float = 0

    def distances(self, found: np.ndarray) -> np.ndarray:
        """The distances (float32) for what the kernel has computed."""
        return np.asarray(found * self.scale + self.offset, np.float32)


@kernel
def far(how: int, numbers: np.ndarray, query: np.ndarray, table: np.ndarray, at: int | np.int64) -> float:
    """What `how` says of the row `at` of `numbers`; see `Compared`."""
    if how == FROM_TABLE:
        looked_up = np.float32(0)
        for j in range(numbers.shape[1]):
            looked_up += table[j, np.int64(numbers[at, j])]
        return np.float64(looked_up)
    total = query.dtype.type(0)
    if how == SQUARES:
        for j in range(len(query)):
            apart = query[j] - numbers[at, j]
            total += apart * apart
        return np.float64(total)
    if how == HAMMING:
        bits = 0
        for j in range(len(query)):
            bits += BIT_COUNTS[np.uint8(query[j]) ^ np.uint8(numbers[at, j])]
        return np.float64(bits)
    for j in range(len(query)):
        total += query[j] * numbers[at, j]
    if how == DOT:
        return np.float64(1 - total)
    own, others = query.dtype.type(0), query.dtype.type(0)
    for j in range(len(query)):
        own += query[j] * query[j]
        others += query.dtype.type(numbers[at, j]) * query.dtype.type(numbers[at, j])
    lengths = np.sqrt(np.float64(own) * np.float64(others))
    return np.float64(1 - total / lengths) if lengths > 0 else np.nan


@kernel
def far_of_each(how: int, numbers: np.ndarray, query: np.ndarray, table: np.ndarray, rows: np.ndarray, out: np.ndarray) -> None:
    """Store in `out[i]` (float64) what `how` says of `rows[i]`."""
    for i in range(len(rows)):
        out[i] = far(how, numbers, query, table, rows[i])
