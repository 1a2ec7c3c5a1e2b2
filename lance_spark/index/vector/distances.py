"""Distances between vectors: squared l2, cosine (`1 - cos`), dot (`1 - q.x`) and hamming (the number of bits that differ)."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.kernel import kernel

METRICS = ("l2", "cosine", "dot", "hamming")

_BLOCK_BYTES = 1 << 20
"""So many bytes of vectors are compared at once, so that the differences stay in the processor's caches."""


def distances(query: np.ndarray, vectors: np.ndarray, metric: str) -> np.ndarray:
    """The distances (float32) of a query to each row of `vectors`; NaN if one of them has a NaN, or, under cosine, only zeros.

    Both have the dtype of `computed_in`.
    """
    block = max(_BLOCK_BYTES // max(vectors.shape[1] * vectors.itemsize, 1), 1)
    found = np.empty(len(vectors), np.float32)
    with np.errstate(all="ignore"):  # vectors may have any values
        for start in range(0, len(vectors), block):
            found[start : start + block] = _distances(query, vectors[start : start + block], metric)
    return found


def _distances(query: np.ndarray, vectors: np.ndarray, metric: str) -> np.ndarray:
    if metric == "l2":
        apart = vectors - query
        return np.asarray(np.einsum("ij,ij->i", apart, apart))
    if metric == "hamming":
        return np.asarray(np.bitwise_count(vectors ^ query).sum(axis=1, dtype=np.int64))
    along = vectors @ query
    if metric == "dot":
        return np.asarray(1 - along)
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors)) * np.sqrt(query @ query)
    return np.asarray(1 - along / lengths)


def least(found: np.ndarray, count: int) -> np.ndarray:
    """The columns of the `count` least distances (float32) in each row of a matrix, ascending; of equal ones, the first. NaN is last."""
    # As integers, numbers have the same order after this; with their columns in the lower half, none are equal.
    bits = np.where(np.isnan(found), np.float32(np.nan), found + np.float32(0)).view(np.uint32)
    bits = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
    keys = bits.astype(np.uint64) << np.uint64(32) | np.arange(found.shape[1], dtype=np.uint64)
    if count < found.shape[1]:
        keys = np.partition(keys, count - 1, axis=1)[:, :count] if count else keys[:, :0]
    return np.asarray(np.sort(keys, axis=1) & np.uint64(0xFFFFFFFF)).astype(np.int64)


def computed_in(dtype: np.dtype) -> np.dtype:
    """The dtype in which distances of vectors are computed: bytes as they are, float64 as it is, all others as float32."""
    return dtype if dtype in (np.uint8, np.float64) else np.dtype(np.float32)


def normalised(vectors: np.ndarray) -> np.ndarray:
    """The vectors (the last axis) scaled to length 1; NaN for zeros."""
    with np.errstate(all="ignore"):
        return np.asarray(vectors / np.sqrt(np.einsum("...i,...i->...", vectors, vectors))[..., None])


@kernel
def add_distances_of_parts(queries: np.ndarray, codewords: np.ndarray, is_dot: bool, out: np.ndarray) -> None:
    """Add to `out[q, part, code]` (float32) the squared distance of a part of `queries[q]` (float32) to a codeword, or their product.

    `codewords[part, :, code]` (float32) is one of them: the inner loop has all codewords of a part, which the processor computes at once.
    """
    parts, size, count = codewords.shape
    for q in range(queries.shape[0]):
        for part in range(parts):
            for d in range(size):
                own = queries[q, part * size + d]
                if is_dot:
                    for code in range(count):
                        out[q, part, code] += own * codewords[part, d, code]
                else:
                    for code in range(count):
                        apart = codewords[part, d, code] - own
                        out[q, part, code] += apart * apart
