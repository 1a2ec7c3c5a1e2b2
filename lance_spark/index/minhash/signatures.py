"""Signatures of texts and the keys of their bands: "Signature Generation" and "Band Keys" of the page MinHash LSH Index.

A shingle is some tokens in a row, joined by a byte. For each of `num_hashes` random functions of the shingles' hashes, a signature has 16
bits of the lowest value: two texts have the same value with the probability of their Jaccard similarity.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa

from lance_spark.arrow.texts import bytes_of
from lance_spark.index.minhash.parameters import MinHash
from lance_spark.index.text.build.split import Occurrences, Splitter
from lance_spark.kernels.kernel import kernel
from lance_spark.kernels.words import U
from lance_spark.kernels.xxh64 import hash_of

SEED = 42
_SEPARATOR = 0x1F
_MASK = (1 << 64) - 1
_KEY_BITS = 56
_MOST = (1 << 64) - 1


def signed(texts: pa.Array, parameters: MinHash, splitter: Splitter) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The places of those texts that have tokens, and their signatures (uint16, a row for each), piece by piece.

    The `splitter` is one for `parameters.tokenizer`; it keeps the distinct tokens.
    """
    coefficients = _coefficients(parameters.num_hashes)
    for start, stop, found in splitter.split(texts):
        yield _signed(found, start, stop, splitter, parameters, coefficients)


def _signed(
    found: Occurrences, start: int, stop: int, splitter: Splitter, parameters: MinHash, coefficients: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    counts = np.bincount(found.documents, minlength=stop - start).astype(np.int64)
    bounds = np.concatenate([[0], np.cumsum(counts)])
    data, token_bounds = bytes_of(pa.array(splitter.tokens, pa.large_string()))
    longest = int(np.diff(token_bounds).max(initial=0))
    tokens = min(parameters.shingle_size, int(counts.max(initial=0)))
    out = np.empty((stop - start, parameters.num_hashes), np.uint16)
    scratch = np.empty((longest + 1) * tokens, np.uint8)
    sign(data, token_bounds, found.tokens, bounds, tokens, coefficients, scratch, np.empty(parameters.num_hashes, np.uint64), out)
    there = np.flatnonzero(counts)
    return there + start, out[there]


@lru_cache(maxsize=8)
def _coefficients(num_hashes: int) -> np.ndarray:
    """The numbers a, b and c of each function (uint64): SplitMix64 from the seed on."""
    state = SEED

    def draw() -> int:
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        z = state
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & _MASK
        return z ^ (z >> 31)

    pairs = [(draw() | 1, draw()) for _ in range(num_hashes)]
    return np.array([[a for a, _ in pairs], [b for _, b in pairs], [draw() | 1 for _ in range(num_hashes)]], np.uint64)


def band_keys(signatures: np.ndarray, num_bands: int) -> np.ndarray:
    """The keys (uint64) of the bands of each signature: the number of the band in the high byte, and a hash of its values."""
    values = np.ascontiguousarray(signatures, "<u2")
    out = np.empty((len(values), num_bands), np.uint64)
    hash_bands(values.view(np.uint8).reshape(len(values), -1), out)
    return out & np.uint64((1 << _KEY_BITS) - 1) | np.arange(num_bands, dtype=np.uint64) << np.uint64(_KEY_BITS)


@kernel
def hash_bands(data: np.ndarray, out: np.ndarray) -> None:
    """Store in `out` the hashes of the bands of each row of `data` (bytes), whose width is a multiple of the number of bands."""
    bands = out.shape[1]
    width = data.shape[1] // bands
    for i in range(len(out)):
        for j in range(bands):
            out[i, j] = hash_of(data[i], U(j * width), U((j + 1) * width), U(SEED))


@kernel
def sign(
    data: np.ndarray,
    token_bounds: np.ndarray,
    tokens: np.ndarray,
    bounds: np.ndarray,
    shingle_size: int,
    coefficients: np.ndarray,
    scratch: np.ndarray,
    lowest: np.ndarray,
    out: np.ndarray,
) -> None:
    """Store in row i of `out` (uint16) the signature of the tokens `tokens[bounds[i]:bounds[i + 1]]`; a row without tokens means nothing.

    Token t has the bytes `data[token_bounds[t]:token_bounds[t + 1]]`. `scratch` has room for `shingle_size` of the longest tokens, each
    with a separator; no text has a longer shingle. `coefficients` are three rows with a number for each value of a signature.
    """
    for i in range(len(out)):
        first, count = bounds[i], bounds[i + 1] - bounds[i]
        size = min(shingle_size, count)
        lowest[:] = U(_MOST)
        for start in range(first, first + count - size + 1):
            end = 0
            for k in range(start, start + size):
                if k > start:
                    scratch[end] = _SEPARATOR
                    end += 1
                for at in range(token_bounds[tokens[k]], token_bounds[tokens[k] + 1]):
                    scratch[end] = data[at]
                    end += 1
            hashed = hash_of(scratch, U(0), U(end), U(SEED))
            for j in range(len(lowest)):
                lowest[j] = min(lowest[j], coefficients[0, j] * hashed + coefficients[1, j])
        for j in range(len(lowest)):
            out[i, j] = (coefficients[2, j] * lowest[j]) >> U(48)
