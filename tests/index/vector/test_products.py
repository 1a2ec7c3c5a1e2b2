"""Many queries at once find what they find one by one, with the same distances."""

from __future__ import annotations

import numpy as np
import pytest

from lance_spark.index.vector import products
from lance_spark.index.vector.best import Best
from lance_spark.index.vector.distances import distances


@pytest.mark.parametrize("metric", products.PRODUCTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("odd", [None, np.nan, np.inf, 1e30])
def test_every_query_finds_its_nearest_vectors(monkeypatch: pytest.MonkeyPatch, metric: str, dtype: str, odd: float | None) -> None:
    rng = np.random.default_rng(3)
    vectors = (rng.normal(size=(500, 24)) + 100).astype(dtype)  # far from the origin, where products lose digits
    vectors[7] = 0
    vectors[40:60] = vectors[40]
    if odd is not None:
        vectors[11, 3] = odd
    queries = (vectors[::60] + rng.normal(size=(9, 24)) / 100).astype(dtype)
    queries[0] = vectors[40]
    rows = np.arange(500, dtype=np.uint64) + np.uint64(1 << 33)
    monkeypatch.setattr(products, "_BLOCK_BYTES", 100 * len(queries) * vectors.itemsize)
    for count in (1, 10, 600):
        best = [Best(count) for _ in queries]
        products.add_nearest(queries, vectors, rows, metric, count, best)
        for query, found in zip(queries, best):
            alone = Best(count)
            alone.add(distances(query, vectors, metric), rows)
            # How a product rounds depends on how many vectors it has, so that rows may change places under dot and cosine.
            np.testing.assert_allclose(found.found()[0], alone.found()[0], rtol=1e-5, atol=1e-6)
            if metric == "l2":
                np.testing.assert_array_equal(found.found()[1], alone.found()[1])
