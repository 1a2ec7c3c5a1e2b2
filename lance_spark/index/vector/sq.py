"""SQ: each number of a vector is one of 256 steps between two bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.index.files import IndexFile
from lance_spark.index.vector.codes import Codes, byte_rows
from lance_spark.kernels.kernel import kernel

_STEPS = 255


@dataclass(frozen=True)
class ScalarQuantizer:
    """The steps are between `low` and `high`."""

    low: float
    high: float
    metric: str
    dimensions: int

    columns = ("__sq_code",)

    def codes(self, batch: pa.RecordBatch, what: str) -> Codes:
        """The codes of a partition: a row for each vector."""
        values = byte_rows(batch.column(0), what, self.dimensions)
        if values.dtype != np.uint8:
            raise CorruptFileError(f"{what}: expected codes of bytes, found {values.dtype}")
        return Codes(np.ascontiguousarray(values))

    def distances(self, query: np.ndarray, centroid: np.ndarray, codes: Codes) -> np.ndarray:
        """The distances of the codes to those of the query; under dot, to the query itself. Those of cosine are those of l2."""
        step = (self.high - self.low) / _STEPS
        if self.metric == "dot":
            along = codes.values.astype(np.float32) @ query.astype(np.float32)
            return np.asarray(1 - (along * step + self.low * query.sum()), np.float32)
        with np.errstate(all="ignore"):
            steps = np.trunc((query.astype(np.float64) - self.low) / step) if step else np.zeros(len(query))
        own = np.clip(np.nan_to_num(steps), 0, _STEPS).astype(np.int32)
        found = np.empty(len(codes.values), np.int64)
        squared_steps(codes.values, own, found)
        return (found * step**2).astype(np.float32)


def scalar_quantizer(file: IndexFile, metadata: Mapping[str, object], metric: str, dimensions: int) -> ScalarQuantizer:
    """The quantizer of a file of codes. Raises CorruptFileError."""
    bounds = metadata.get("bounds")
    low, high = (bounds.get(key) for key in ("start", "end")) if isinstance(bounds, Mapping) else (None, None)
    if not isinstance(low, int | float) or not isinstance(high, int | float) or not low <= high or metadata.get("num_bits") != 8:
        raise CorruptFileError(f"{file.path}: expected 8 bits between two bounds, found {metadata.get('num_bits')} and {bounds}")
    return ScalarQuantizer(float(low), float(high), metric, dimensions)


@kernel
def squared_steps(codes: np.ndarray, query: np.ndarray, out: np.ndarray) -> None:
    """Store in `out[i]` (int64) the sum of the squares of the differences of `codes[i]` (uint8) and `query` (int32), of the same length."""
    for i in range(codes.shape[0]):
        total = np.int64(0)
        for j in range(codes.shape[1]):
            apart = np.int32(codes[i, j]) - query[j]
            total += np.int64(apart * apart)
        out[i] = total
