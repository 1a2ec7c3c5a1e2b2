"""The nearest of some centroids to each of many vectors."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.kernel import kernel

_FEW_DIMENSIONS = 16
"""With more, a matrix product is faster than a loop over the centroids."""

_LANES = 16
"""Distances that are compared at once; as many as the widest registers hold."""

_BLOCK_BYTES = 4 << 20
"""Distances that are computed at once."""


def nearest_of(vectors: np.ndarray, centroids: np.ndarray, dot: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The number of the nearest centroid (int64) to each vector, and its squared distance (float32), or `1 - x.c` under `dot`.

    Both are rows of matrices. Numbers far from zero do not lose digits: distances are those from the middle of the centroids.
    """
    dtype = np.float64 if vectors.dtype == np.float64 or centroids.dtype == np.float64 else np.float32
    middle = np.zeros(centroids.shape[1], dtype) if dot else centroids.mean(axis=0, dtype=dtype)
    around = np.asarray(centroids - middle, np.float32)
    lengths = np.zeros(len(around), np.float32) if dot else np.einsum("ij,ij->i", around, around)
    found, least = np.empty(len(vectors), np.int64), np.empty(len(vectors), np.float32)
    # The columns are filled up to whole groups of lanes with centroids that are never the nearest.
    width = -(-len(around) // _LANES) * _LANES
    table = np.zeros((around.shape[1], width), np.float32)
    table[:, : len(around)] = around.T * np.float32(-1 if dot else -2)
    constant = np.full(width, np.inf, np.float32)
    constant[: len(around)] = lengths
    block = max(_BLOCK_BYTES // (4 * width), 1)
    with np.errstate(all="ignore"):  # vectors may have any values
        for start in range(0, len(vectors), block):
            part = np.ascontiguousarray(vectors[start : start + block] - middle, np.float32)
            into = slice(start, start + block)
            if part.shape[1] <= _FEW_DIMENSIONS:
                by_loop(part, table, constant, found[into], least[into])
            else:
                lowest(part @ table, constant, found[into], least[into])
            least[into] += np.float32(1) if dot else np.einsum("ij,ij->i", part, part)
    return found, least if dot else np.maximum(least, 0)


@kernel
def by_loop(vectors: np.ndarray, table: np.ndarray, constant: np.ndarray, found: np.ndarray, least: np.ndarray) -> None:
    """Store the place and the value of the lowest of `constant + vector @ table` for each of the vectors; all are float32.

    The width of the table is a multiple of 16. Of equal ones, the first is found; if none can be compared (NaN), number 0.
    """
    width = table.shape[1]
    sums, low = np.empty(width, np.float32), np.empty(16, np.float32)
    for i in range(vectors.shape[0]):
        for k in range(width):
            sums[k] = constant[k]
        for j in range(table.shape[0]):
            value = vectors[i, j]
            for k in range(width):
                sums[k] += value * table[j, k]
        for lane in range(16):
            low[lane] = np.inf
        for k in range(0, width, 16):
            for lane in range(16):
                low[lane] = sums[k + lane] if sums[k + lane] < low[lane] else low[lane]
        best = low[0]
        for lane in range(16):
            best = low[lane] if low[lane] < best else best
        found[i] = 0
        least[i] = best
        for k in range(width):
            if sums[k] == best:
                if constant[k] < np.inf:
                    found[i] = k
                break


@kernel
def lowest(products: np.ndarray, constant: np.ndarray, found: np.ndarray, least: np.ndarray) -> None:
    """As `by_loop`, from the products of the vectors and the table."""
    width = products.shape[1]
    low = np.empty(16, np.float32)
    for i in range(products.shape[0]):
        for lane in range(16):
            low[lane] = np.inf
        for k in range(0, width, 16):
            for lane in range(16):
                value = products[i, k + lane] + constant[k + lane]
                low[lane] = value if value < low[lane] else low[lane]
        best = low[0]
        for lane in range(16):
            best = low[lane] if low[lane] < best else best
        found[i] = 0
        least[i] = best
        for k in range(width):
            if products[i, k] + constant[k] == best:
                if constant[k] < np.inf:
                    found[i] = k
                break
