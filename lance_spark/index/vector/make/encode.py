"""The codes of vectors, for each quantizer, a row for each vector; how a file stores those of a partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.index.vector.codes import Quantizer
from lance_spark.index.vector.distances import normalised
from lance_spark.index.vector.flat import Flat
from lance_spark.index.vector.make.nearest import nearest_of
from lance_spark.index.vector.make.rabit import are_rabit_codes, rabit_codes
from lance_spark.index.vector.pq import ProductQuantizer
from lance_spark.index.vector.rq import RaBitQuantizer
from lance_spark.index.vector.rq_layout import packed_signs, signs
from lance_spark.index.vector.sq import ScalarQuantizer

_ROUNDING = 1e-3
"""Numbers of half precision are rounded by about half of this part."""

_BLOCK_NUMBERS = 1 << 18
"""Numbers that are divided into steps at once: they stay in the cache of the processor."""

Columns = Mapping[str, np.ndarray]
"""The columns of a file of codes, by name: rows of a matrix, or numbers."""


def comparable(vectors: np.ndarray, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """The vectors as they are compared, and a mask of those that can be: finite ones; under cosine, of length 1."""
    if vectors.dtype == np.uint8:
        return vectors, np.ones(len(vectors), np.bool_)
    if metric == "cosine":
        exact = vectors if vectors.dtype == np.float64 else vectors.astype(np.float32)
        vectors = normalised(exact).astype(vectors.dtype)
    return vectors, np.isfinite(vectors).all(axis=1)


def as_bits(vectors: np.ndarray) -> np.ndarray:
    """Vectors of bytes as vectors of bits (float32), whose squared distances are the numbers of bits that differ."""
    return np.unpackbits(vectors, axis=1, bitorder="little").astype(np.float32)


def assigned(vectors: np.ndarray, centroids: np.ndarray, metric: str) -> np.ndarray:
    """The number of the partition (int64) of each vector: that of the nearest centroid."""
    if metric == "hamming":
        vectors, centroids = as_bits(vectors), as_bits(centroids)
    return nearest_of(vectors, centroids, metric == "dot")[0]


def encoded(quantizer: Quantizer, vectors: np.ndarray, own_centroids: np.ndarray) -> Columns:
    """The codes of vectors, whose centroids are in the rows of `own_centroids`."""
    return _ENCODERS[type(quantizer)](quantizer, vectors, own_centroids)


def _flat(quantizer: Quantizer, vectors: np.ndarray, own_centroids: np.ndarray) -> Columns:
    return {"flat": vectors}


def product_codes(codebook: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The number of the nearest codeword (uint8) of each part of each vector."""
    size = codebook.shape[2]
    codes = np.empty((len(vectors), len(codebook)), np.uint8)
    for part, words in enumerate(codebook):
        codes[:, part] = nearest_of(vectors[:, part * size : (part + 1) * size], words)[0]
    return codes


def _product(quantizer: Quantizer, vectors: np.ndarray, own_centroids: np.ndarray) -> Columns:
    assert isinstance(quantizer, ProductQuantizer)
    apart = vectors if quantizer.metric == "dot" else vectors - own_centroids
    codes = product_codes(quantizer.codebook, np.asarray(apart, np.float32))
    if quantizer.codebook.shape[1] == 16:
        codes = codes[:, ::2] | codes[:, 1::2] << 4
    return {"__pq_code": codes}


def _scalar(quantizer: Quantizer, vectors: np.ndarray, own_centroids: np.ndarray) -> Columns:
    assert isinstance(quantizer, ScalarQuantizer)
    codes = np.empty(vectors.shape, np.uint8)
    block = max(_BLOCK_NUMBERS // vectors.shape[1], 1)
    for start in range(0, len(vectors), block):
        codes[start : start + block] = quantizer.steps(vectors[start : start + block])
    return {"__sq_code": codes}


def _rabit(quantizer: Quantizer, vectors: np.ndarray, own_centroids: np.ndarray) -> Columns:
    assert isinstance(quantizer, RaBitQuantizer)
    return rabit_codes(quantizer, vectors, own_centroids)


_ENCODERS: Mapping[type, Callable[[Quantizer, np.ndarray, np.ndarray], Columns]] = {
    Flat: _flat,
    ProductQuantizer: _product,
    ScalarQuantizer: _scalar,
    RaBitQuantizer: _rabit,
}


def stored(quantizer: Quantizer, columns: Columns) -> Columns:
    """The codes of a partition as a file has them."""
    if isinstance(quantizer, ProductQuantizer) and quantizer.transposed:
        codes = columns["__pq_code"]
        return {"__pq_code": np.ascontiguousarray(codes.T).reshape(codes.shape)}
    if isinstance(quantizer, RaBitQuantizer) and quantizer.packed:
        return {**columns, "_rabit_codes": packed_signs(columns["_rabit_codes"])}
    return columns


def unstored(quantizer: Quantizer, columns: Columns) -> Columns:
    """What `stored` has stored, a row for each vector."""
    if isinstance(quantizer, ProductQuantizer) and quantizer.transposed:
        codes = columns["__pq_code"]
        return {"__pq_code": codes.reshape(codes.shape[::-1]).T}
    if isinstance(quantizer, RaBitQuantizer) and quantizer.packed:
        return {**columns, "_rabit_codes": signs(columns["_rabit_codes"])}
    return columns


def are_codes_of(quantizer: Quantizer, columns: Columns, vectors: np.ndarray, centroid: np.ndarray) -> np.ndarray:
    """A mask of the rows that have the codes of the vectors, or, as other writers round numbers otherwise, codes that are as good."""
    if isinstance(quantizer, RaBitQuantizer):
        return are_rabit_codes(quantizer, columns, vectors, centroid)
    best = encoded(quantizer, vectors, np.broadcast_to(centroid, vectors.shape))
    if isinstance(quantizer, ProductQuantizer):
        apart = np.asarray(vectors if quantizer.metric == "dot" else vectors - centroid, np.float32)
        stored, least = (_error(quantizer, codes["__pq_code"], apart) for codes in (columns, best))
        return np.asarray(stored <= least * (1 + _ROUNDING) + _ROUNDING * np.einsum("ij,ij->i", apart, apart))
    ((name, found),) = columns.items()
    if found.dtype == np.uint8:
        most = 1 if isinstance(quantizer, ScalarQuantizer) else 0
        return np.asarray((np.abs(found.astype(np.int16) - best[name]) <= most).all(axis=1))
    return np.asarray(np.isclose(found, best[name], rtol=_ROUNDING, atol=_ROUNDING).all(axis=1))


def _error(quantizer: ProductQuantizer, codes: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The squared distances of the vectors to what their codes mean."""
    if quantizer.codebook.shape[1] == 16:
        codes = np.stack([codes & 15, codes >> 4], axis=2).reshape(len(codes), -1)
    apart = quantizer.codebook[np.arange(codes.shape[1]), codes].reshape(len(codes), -1) - vectors
    return np.asarray(np.einsum("ij,ij->i", apart, apart))


def check_encodes(quantizer: Quantizer, what: str) -> None:
    """Raise UnsupportedFeatureError for a quantizer that cannot encode yet."""
    if type(quantizer) not in _ENCODERS or (isinstance(quantizer, RaBitQuantizer) and quantizer.residual):
        raise UnsupportedFeatureError(f"{what}: vectors cannot be added to it")
