"""SQ: each number of a vector is one of 256 steps between two bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.index.files import IndexFile
from lance_spark.index.vector.codes import Codes, byte_rows
from lance_spark.index.vector.compared import DOT, NO_TABLE, SQUARES, Compared
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
        """The codes of a partition."""
        values = byte_rows(batch.column(0), what, self.dimensions)
        if values.dtype != np.uint8:
            raise CorruptFileError(f"{what}: expected codes of bytes, found {values.dtype}")
        return Codes(np.ascontiguousarray(values))

    def forms(self, queries: np.ndarray) -> np.ndarray:
        """See `codes.Quantizer`: the codes of the queries; under dot, the queries themselves."""
        return queries.astype(np.float32) if self.metric == "dot" else self.steps(queries)

    def distances(self, forms: np.ndarray, centroid: np.ndarray, codes: Codes) -> np.ndarray:
        """The distances of the codes to those of the queries; under dot, to the queries themselves. Those of cosine are those of l2."""
        step = self.step
        if self.metric == "dot":
            along = codes.values.astype(np.float32) @ forms.T
            return np.asarray(1 - (along * step + self.low * forms.sum(axis=1)), np.float32)
        found = np.empty((len(codes.values), len(forms)), np.int64)
        squared_steps(codes.values, forms, found)
        return (found * step**2).astype(np.float32)

    def compared(self, query: np.ndarray, centroid: np.ndarray, codes: Codes) -> Compared:
        """The same for single vectors."""
        step = self.step
        if self.metric == "dot":
            # 1 - (along * step + rest), where the kernel tells 1 - along
            own = query.astype(np.float32)
            return Compared(DOT, codes.values, own, NO_TABLE, scale=step, offset=float(1 - step - self.low * own.sum()))
        return Compared(SQUARES, codes.values, self.steps(query), NO_TABLE, scale=step**2)

    @property
    def step(self) -> float:
        """How far apart two neighbouring numbers are."""
        return (self.high - self.low) / _STEPS

    def steps(self, vectors: np.ndarray) -> np.ndarray:
        """The steps (int32) of vectors, as codes have them: the greatest that is not above a number."""
        if not self.step:
            return np.zeros(vectors.shape, np.int32)
        steps = vectors.astype(np.float64)
        with np.errstate(all="ignore"):
            steps -= self.low
            steps /= self.step
        np.fmax(steps, 0, out=steps)  # and of NaN, which has no step, 0
        np.fmin(steps, _STEPS, out=steps)
        return steps.astype(np.int32)


def scalar_quantizer(file: IndexFile, metadata: Mapping[str, object], metric: str, dimensions: int) -> ScalarQuantizer:
    """The quantizer of a file of codes. Raises CorruptFileError."""
    bounds = metadata.get("bounds")
    low, high = (bounds.get(key) for key in ("start", "end")) if isinstance(bounds, Mapping) else (None, None)
    if not isinstance(low, int | float) or not isinstance(high, int | float) or not low <= high or metadata.get("num_bits") != 8:
        raise CorruptFileError(f"{file.path}: expected 8 bits between two bounds, found {metadata.get('num_bits')} and {bounds}")
    return ScalarQuantizer(float(low), float(high), metric, dimensions)


@kernel
def squared_steps(codes: np.ndarray, queries: np.ndarray, out: np.ndarray) -> None:
    """Store in `out[i, q]` (int64) the sum of the squares of the differences of `codes[i]` (uint8) and `queries[q]` (int32)."""
    for q in range(queries.shape[0]):
        query = queries[q]
        for i in range(codes.shape[0]):
            total = np.int64(0)
            for j in range(codes.shape[1]):
                apart = np.int32(codes[i, j]) - query[j]
                total += np.int64(apart * apart)
            out[i, q] = total
