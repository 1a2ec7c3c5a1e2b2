"""FLAT: vectors as they are; under cosine, scaled to length 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.index.vector.codes import Codes, byte_rows
from lance_spark.index.vector.distances import computed_in, distances


@dataclass(frozen=True)
class Flat:
    """How vectors are compared by `metric`."""

    metric: str

    columns = ("flat",)

    def codes(self, batch: pa.RecordBatch, what: str) -> Codes:
        """The vectors of a partition."""
        values = byte_rows(batch.column("flat"), what)
        return Codes(values.astype(computed_in(values.dtype), copy=False))

    def distances(self, query: np.ndarray, centroid: np.ndarray, codes: Codes) -> np.ndarray:
        """The distances of a query to the vectors."""
        return distances(query.astype(codes.values.dtype), codes.values, self.metric)
