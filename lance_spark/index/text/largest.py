"""The largest scores of the blocks of posting lists, which bound those of documents that are not looked at."""

from __future__ import annotations

from typing import Any

import numpy as np

from lance_spark.kernels.kernel import kernel

BLOCK = 128
"""Documents of a posting list that are passed over together."""


_EXACT_BITS = 4


def rounded(lengths: np.ndarray) -> np.ndarray:
    """The lengths (uint32) rounded down to 4 bits of precision, as in impacts; see `build.impacts`."""
    bits = np.frexp(lengths.astype(np.float64))[1]
    shift = np.maximum(bits - _EXACT_BITS, 0).astype(np.uint32)
    found: np.ndarray = (lengths.astype(np.uint32) >> shift) << shift
    return found


def largest(documents: np.ndarray, frequencies: np.ndarray, lengths: np.ndarray, average: np.float32) -> np.ndarray:
    """The largest score of each block of a posting list by a token of the weight 1."""
    out = np.zeros(-(-len(documents) // BLOCK), np.float32)
    _largest(documents, frequencies, lengths, average, out)
    return out


@kernel
def _largest(documents: np.ndarray, frequencies: np.ndarray, lengths: np.ndarray, average: np.float32, out: np.ndarray) -> None:
    for i in range(len(documents)):
        out[i // BLOCK] = max(out[i // BLOCK], score_of(frequencies[i], lengths[documents[i]], average))


@kernel
def score_of(frequency: Any, length: Any, average: np.float32) -> Any:
    """See `bm25.add_scores`."""
    k1, b, one = np.float32(1.2), np.float32(0.75), np.float32(1)
    f = np.float32(frequency)
    norm = k1 * (one - b + b * np.float32(length) / average)
    return (k1 + one) * f / (f + norm)
