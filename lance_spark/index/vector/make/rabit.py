"""Encoding vectors by RQ: the signs of a rotated vector, further bits of each number, and factors that correct the distances."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from lance_spark.index.vector.rq import RaBitQuantizer
from lance_spark.index.vector.rq_layout import ex_codes, packed_ex_codes
from lance_spark.kernels.kernel import summing

DEFAULT_BITS = 5

_ROUNDS = 4
_SCALES = np.geomspace(0.9, 4, 16)
_FINER = np.geomspace(0.92, 1.08, 16)
"""Scales that are tried, and then parts of the best, for the further bits of a vector: parts of the one under which its largest number has
the largest code.

A larger scale cuts off large numbers, and tells small ones more exactly.
"""

_BOUND = 1.9
"""The error of a distance by signs is less than so many times its deviation; pylance leaves out vectors by it."""

_ROUNDING = 1e-2
"""Numbers that are smaller than this part of the largest one of a vector may have another sign where others round otherwise."""

_LEAST_COSINE = 0.8
"""The codes of a vector have at least this cosine with it: the least is that of two bits."""

_FACTORS = ("add", "scale", "error")


def storage_of(dimensions: int, bits: int, rng: np.random.Generator) -> Mapping[str, object]:
    """The metadata of the file of codes, with a random rotation."""
    flips = rng.integers(0, 256, _ROUNDS * -(-dimensions // 8), dtype=np.uint8).tolist()
    told = {"rotate_mat_position": None, "fast_rotation_signs": flips, "rotation_type": "fast", "code_dim": dimensions}
    return {**told, "num_bits": bits, "packed": True, "query_estimator": "raw_query"}


def rabit_codes(quantizer: RaBitQuantizer, vectors: np.ndarray, own_centroids: np.ndarray) -> dict[str, np.ndarray]:
    """The columns of codes of vectors, whose centroids are in the rows of `own_centroids`; signs are a row for each vector."""
    around = own_centroids.astype(np.float32) @ quantizer.rotation.T
    apart = (vectors - own_centroids).astype(np.float32) @ quantizer.rotation.T
    count, size = apart.shape
    of_signs, of_all = np.empty((count, 3), np.float32), np.empty((count, 3), np.float32)
    ex = np.zeros((count, size), np.uint8)
    bits = quantizer.bits - 1
    add_ex_codes(apart, bits, _SCALES, _FINER, ex)
    positive = apart >= 0
    add_factors(apart, around, np.where(positive, np.float32(0.5), np.float32(-0.5)), quantizer.metric == "dot", of_signs)
    columns = {"_rabit_codes": np.packbits(positive, axis=1, bitorder="little")}
    columns |= {f"__{name}_factors": of_signs[:, i] for i, name in enumerate(_FACTORS)}
    if bits:
        codes = np.where(positive, ex, (1 << bits) - 1 - ex).astype(np.uint8)
        add_factors(
            apart, around, np.where(positive, np.float32(1), np.float32(-1)) * (ex + np.float32(0.5)), quantizer.metric == "dot", of_all
        )
        columns["__blocked_ex_codes"] = packed_ex_codes(codes, bits)
        columns |= {f"__{name}_factors_ex": of_all[:, i] for i, name in enumerate(_FACTORS[:2])}
    return columns


@summing
def add_ex_codes(apart: np.ndarray, bits: int, scales: np.ndarray, finer: np.ndarray, out: np.ndarray) -> None:
    """Store in `out` (uint8) the size of each number of each row of `apart` (float32) in 2 to the power of `bits` steps.

    Of the `scales`, and then of the best one times `finer`, that is taken under which the steps have the direction nearest to the row's.
    """
    most = (1 << bits) - 1
    for i in range(apart.shape[0]):
        largest = np.float32(0)
        for j in range(apart.shape[1]):
            largest = max(largest, abs(apart[i, j]))
        if bits == 0 or not largest > 0:
            continue
        best, chosen, coarse = -1.0, 0.0, 0.0
        for trial in range(len(scales) + len(finer)):
            if trial < len(scales):
                step = np.float32(scales[trial] * (most + 1) / largest)
            else:
                coarse = chosen if trial == len(scales) else coarse
                step = np.float32(coarse * finer[trial - len(scales)])
            along, length = 0.0, 0.0
            for j in range(apart.shape[1]):
                size = abs(apart[i, j])
                number = min(np.floor(size * step), np.float32(most)) + np.float32(0.5)
                along += size * number
                length += number * number
            if along * along > best * length:
                best, chosen = along * along / length, float(step)
        for j in range(apart.shape[1]):
            out[i, j] = np.uint8(min(np.floor(abs(apart[i, j]) * np.float32(chosen)), np.float32(most)))


def add_factors(apart: np.ndarray, around: np.ndarray, codes: np.ndarray, is_dot: bool, out: np.ndarray) -> None:
    """Store in the columns of `out` the numbers to add and to scale by, and the bound of the error, of what the codes mean."""
    dimensions = apart.shape[1]
    squared, along = np.einsum("ij,ij->i", apart, apart), np.einsum("ij,ij->i", apart, codes)
    with np.errstate(all="ignore"):  # a vector that is its centroid has no direction
        ratio = np.where(along > 0, squared / along, 0)
        spread = np.where(along > 0, squared * dimensions / 4 / along**2 - 1, 0)
    of_centroid = ratio * np.einsum("ij,ij->i", around, codes)
    error = np.sqrt(squared) * _BOUND * np.sqrt(np.maximum(spread, 0) / max(dimensions - 1, 1))
    if is_dot:
        out[:, 0], out[:, 1], out[:, 2] = 1 - np.einsum("ij,ij->i", apart, around) + of_centroid, -ratio, error
    else:
        out[:, 0], out[:, 1], out[:, 2] = squared + 2 * of_centroid, -2 * ratio, 2 * error


def code_fields(dimensions: int, bits: int) -> list[pa.Field]:
    """The columns of codes in the order of the file."""
    numbers = [pa.field(f"__{name}_factors", pa.float32()) for name in _FACTORS]
    fields = [pa.field("_rabit_codes", pa.list_(pa.uint8(), -(-dimensions // 8))), *numbers]
    if bits > 1:
        fields.append(pa.field("__blocked_ex_codes", pa.list_(pa.uint8(), -(-dimensions // 64) * 8 * (bits - 1))))
        fields += [pa.field(f"__{name}_factors_ex", pa.float32()) for name in _FACTORS[:2]]
    return fields


def are_rabit_codes(quantizer: RaBitQuantizer, columns: Mapping[str, np.ndarray], vectors: np.ndarray, centroid: np.ndarray) -> np.ndarray:
    """A mask of the rows whose signs are those of the rotated vectors, but for numbers near zero, and whose codes have their direction."""
    apart = (vectors - centroid).astype(np.float32) @ quantizer.rotation.T
    size = apart.shape[1]
    positive = np.unpackbits(columns["_rabit_codes"], axis=1, count=size, bitorder="little")
    near_zero = np.abs(apart) <= _ROUNDING * np.abs(apart).max(axis=1, initial=0)[:, None]
    good = ((positive == (apart >= 0)) | near_zero).all(axis=1)
    if quantizer.bits > 1:
        bits = quantizer.bits - 1
        meant = (positive.astype(np.float32) * (1 << bits) + ex_codes(columns["__blocked_ex_codes"], bits, size)) - ((1 << bits) - 0.5)
        along = np.einsum("ij,ij->i", meant, apart)
        lengths = np.einsum("ij,ij->i", meant, meant) * np.einsum("ij,ij->i", apart, apart)
        good &= along >= 0
        good &= along**2 >= _LEAST_COSINE**2 * lengths
    return np.asarray(good)
