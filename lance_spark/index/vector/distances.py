"""Distances between vectors: squared l2, cosine (`1 - cos`), dot (`1 - q.x`) and hamming (the number of bits that differ)."""

from __future__ import annotations

import numpy as np

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


def computed_in(dtype: np.dtype) -> np.dtype:
    """The dtype in which distances of vectors are computed: bytes as they are, float64 as it is, all others as float32."""
    return dtype if dtype in (np.uint8, np.float64) else np.dtype(np.float32)


def normalised(vectors: np.ndarray) -> np.ndarray:
    """The vectors (the last axis) scaled to length 1; NaN for zeros."""
    with np.errstate(all="ignore"):
        return np.asarray(vectors / np.sqrt(np.einsum("...i,...i->...", vectors, vectors))[..., None])
