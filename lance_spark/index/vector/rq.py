"""RQ (RaBitQ): a vector is rotated, and each number becomes its sign and up to 8 further bits.

Factors of each vector correct the distances.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark._proto import index_pb2 as pb
from lance_spark.buffers.messages import parse_message
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.index.files import IndexFile
from lance_spark.index.vector.codes import Codes, byte_rows, numbers
from lance_spark.index.vector.ivf import tensor
from lance_spark.index.vector.pq import bytes_of
from lance_spark.index.vector.rq_layout import ex_codes, signs
from lance_spark.index.vector.rq_rotation import fast_rotation
from lance_spark.kernels.kernel import kernel

_GROUP = 32
"""Rows whose signs are summed up with tables of rounded numbers, as pylance does; the last rows of a partition are not."""

_MOST_DIMENSIONS = 1 << 13
"""The rotation is a matrix, of 256 MB at most."""


@dataclass(frozen=True)
class RaBitQuantizer:
    """`rotation` (float32) has a row for each rotated dimension. With `residual`, what is rotated is the query less the centroid."""

    rotation: np.ndarray
    bits: int
    metric: str
    packed: bool
    residual: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """See `codes.Quantizer`."""
        ex = "_ex" if self.bits > 1 else ""
        return ("_rabit_codes", f"__add_factors{ex}", f"__scale_factors{ex}", *(("__blocked_ex_codes",) if ex else ()))

    def codes(self, batch: pa.RecordBatch, what: str) -> Codes:
        """The signs as `values`, 8 in a byte, and the factors; `ex` are the further bits."""
        size = len(self.rotation)
        stored = byte_rows(batch.column(0), what, -(-size // 8))
        if stored.dtype != np.uint8:
            raise CorruptFileError(f"{what}: expected codes of bytes, found {stored.dtype}")
        factors = {name: numbers(batch.column(i), np.float32, what) for i, name in ((1, "add"), (2, "scale"))}
        if self.bits > 1:
            width = -(-size // 64) * 8 * (self.bits - 1)
            factors["ex"] = ex_codes(byte_rows(batch.column(3), what, width), self.bits - 1, size)
        return Codes(signs(stored) if self.packed else np.ascontiguousarray(stored), factors)

    def distances(self, query: np.ndarray, centroid: np.ndarray, codes: Codes) -> np.ndarray:
        """See `codes.Quantizer`. Those of cosine are those of l2: about twice as large."""
        query, centroid = query.astype(np.float32), centroid.astype(np.float32)
        apart = query - centroid
        rotated = self.rotation @ (apart if self.residual else query)
        constant = -(query @ centroid) if self.metric == "dot" else apart @ apart
        table = _table(rotated)
        low, high = table.min(), table.max()
        step = (high - low) / np.float32(255)
        rounded = np.round((table - low) / step).astype(np.int64) if step > 0 else np.zeros(table.shape, np.int64)
        along = np.empty(len(codes.values), np.float32)
        sum_of_signs(codes.values, table, rounded, low, step, len(along) // _GROUP * _GROUP, along)
        total = rotated.sum()
        if self.residual:
            along = (2 * along - total) / np.float32(np.sqrt(len(rotated)))
        else:
            scale = np.float32(1 << (self.bits - 1))
            along = along * scale - (scale - np.float32(0.5)) * total
            if self.bits > 1:
                along += codes.factors["ex"].astype(np.float32) @ rotated
        return np.asarray(constant + codes.factors["add"] + codes.factors["scale"] * along, np.float32)


def _table(rotated: np.ndarray) -> np.ndarray:
    """The sum of the numbers with a sign, for each group of 4 dimensions and each of their 16 signs."""
    padded = np.zeros(-(-len(rotated) // 8) * 8, np.float32)
    padded[: len(rotated)] = rotated
    return np.asarray(padded.reshape(-1, 4) @ ((np.arange(16) >> np.arange(4)[:, None]) & 1).astype(np.float32))


def rabit_quantizer(file: IndexFile, metadata: Mapping[str, object], metric: str, dimensions: int) -> RaBitQuantizer:
    """The quantizer of a file of codes. Raises CorruptFileError or UnsupportedFeatureError."""
    bits, size, position = metadata.get("num_bits"), metadata.get("code_dim", dimensions), metadata.get("rotate_mat_position")
    if not isinstance(bits, int) or not 1 <= bits <= 9 or not isinstance(size, int) or not dimensions <= size <= _MOST_DIMENSIONS:
        raise CorruptFileError(f"{file.path}: {bits} bits in {size} dimensions do not encode {dimensions} dimensions")
    residual = metadata.get("query_estimator", "residual_query") != "raw_query"
    if residual and (metric != "l2" or bits > 1):
        raise UnsupportedFeatureError(f"{file.path}: codes of RQ of {bits} bits relative to centroids under {metric}")
    if position is not None:
        data = file.reader.global_buffer(position if isinstance(position, int) else -1)
        rotation = tensor(parse_message(pb.Tensor, data, f"{file.path}: rotation"), f"{file.path}: rotation").astype(np.float32)
    else:
        flips = np.frombuffer(bytes_of(metadata.get("fast_rotation_signs"), file.path), np.uint8)
        rotation = fast_rotation(flips, dimensions, size, file.path)
    if rotation.shape != (size, dimensions):
        raise CorruptFileError(f"{file.path}: expected a rotation of {dimensions} to {size} dimensions, found {rotation.shape}")
    return RaBitQuantizer(rotation, bits, metric, bool(metadata.get("packed", False)), residual)


@kernel
def sum_of_signs(
    codes: np.ndarray, table: np.ndarray, rounded: np.ndarray, low: float, step: float, from_rounded: int, out: np.ndarray
) -> None:
    """Store in `out[i]` (float32) the sum of `table[j, n]` (float32) for the nibbles n of `codes[i]` (uint8), the low one of a byte first.

    Of the first `from_rounded` rows, the sum of `rounded` (int64) times `step` and `low`. The tables have two rows for each byte of a code.
    """
    for i in range(codes.shape[0]):
        if i < from_rounded:
            total = np.int64(0)
            for j in range(codes.shape[1]):
                total += rounded[2 * j, codes[i, j] & 15] + rounded[2 * j + 1, codes[i, j] >> 4]
            out[i] = np.float32(total) * step + np.float32(2 * codes.shape[1]) * low
        else:
            exact = np.float32(0)
            for j in range(codes.shape[1]):
                exact += table[2 * j, codes[i, j] & 15] + table[2 * j + 1, codes[i, j] >> 4]
            out[i] = exact
