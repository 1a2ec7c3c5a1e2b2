"""FLAT: vectors as they are; under cosine, scaled to length 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.index.vector.codes import Codes, byte_rows
from lance_spark.index.vector.compared import NO_TABLE, OF_METRIC, Compared
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

    def forms(self, queries: np.ndarray) -> np.ndarray:
        """See `codes.Quantizer`: the queries in the type in which they are compared."""
        return queries.astype(computed_in(queries.dtype), copy=False)

    def distances(self, forms: np.ndarray, centroid: np.ndarray, codes: Codes) -> np.ndarray:
        """The distances of queries to the vectors."""
        found = [distances(query, codes.values, self.metric) for query in forms.astype(codes.values.dtype, copy=False)]
        return np.stack(found, axis=1)

    def compared(self, query: np.ndarray, centroid: np.ndarray, codes: Codes) -> Compared:
        """The same for single vectors."""
        return Compared(OF_METRIC[self.metric], codes.values, query.astype(codes.values.dtype), NO_TABLE)
