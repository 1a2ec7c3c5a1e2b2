"""Codes of PQ are compared with many queries side by side in the same way as with each, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from lance_spark.index.vector.codes import Codes
from lance_spark.index.vector.pq import ProductQuantizer


@pytest.mark.parametrize("metric", ["l2", "dot"])
@pytest.mark.parametrize(("parts", "size", "bits"), [(1, 3, 8), (4, 8, 4), (6, 19, 4), (16, 1, 8)])
def test_many_queries_have_the_distances_of_each(metric: str, parts: int, size: int, bits: int) -> None:
    rng = np.random.default_rng(parts)
    quantizer = ProductQuantizer(rng.normal(size=(parts, 1 << bits, size)).astype(np.float32), metric, True)
    queries, centroid = rng.normal(size=(2 * 64 + 3, parts * size)).astype(np.float32), rng.normal(size=parts * size).astype(np.float32)
    queries[0, 0], queries[1, 0] = np.inf, np.nan
    values = np.ascontiguousarray(rng.integers(0, 1 << bits, (parts, 50)).astype(np.uint8)).T
    with np.errstate(all="ignore"):
        found = quantizer.distances(quantizer.forms(queries), centroid, Codes(values))
        alone = [quantizer.distances(quantizer.forms(query[None]), centroid, Codes(values))[:, 0] for query in queries]
    np.testing.assert_array_equal(found, np.stack(alone, axis=1))
    some = quantizer.distances(queries[:9], centroid, Codes(values).rows(10, 30))
    np.testing.assert_array_equal(some, found[10:30, :9])
