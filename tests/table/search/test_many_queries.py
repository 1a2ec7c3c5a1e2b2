"""Several queries at once find the rows that each of them finds alone, whatever is searched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from tests.table.search.vectors import table, vectors

ROWS = 1200
QUERIES = np.asarray(vectors(rows=ROWS)[20:60] + 0.25, np.float32)
FEW_CODES = {"num_sub_vectors": 2, "num_bits": 4}
"""Codes of which many rows have the same, so that they are at the same distance."""


def equals_single_searches(dataset: Dataset, near: dict[str, Any], **scan: Any) -> pa.Table:
    """Check that the rows of all queries are those of each; returns them."""
    found = dataset.scan(columns=["id"], nearest={**near, "column": "vec", "q": QUERIES}, **scan).to_table()
    alone = []
    for number, query in enumerate(QUERIES):
        own = dataset.scan(columns=["id"], nearest={**near, "column": "vec", "q": query}, **scan).to_table()
        alone.append(own.add_column(0, "query_index", pa.array([number] * len(own), pa.int32())))
    expected = pa.concat_tables(alone)
    assert found["query_index"].equals(expected["query_index"])
    np.testing.assert_allclose(found["_distance"].to_numpy(), expected["_distance"].to_numpy(), rtol=1e-4, atol=1e-4)
    ours, theirs = found["id"].to_numpy(), expected["id"].to_numpy()
    distances = found["_distance"].to_numpy()
    swapped = np.flatnonzero(ours != theirs)  # products of matrices may round otherwise: only rows at about one distance change places
    assert all(np.isclose(distances[[i - 1, (i + 1) % len(ours)]], distances[i], rtol=1e-4).any() for i in swapped)
    return found


@pytest.mark.parametrize(
    ("kind", "metric", "parameters"),
    [
        ("IVF_FLAT", "cosine", {}),
        ("IVF_PQ", "l2", {"num_sub_vectors": 4}),
        ("IVF_PQ", "dot", FEW_CODES),
        ("IVF_SQ", "l2", {}),
        ("IVF_RQ", "l2", {}),
        ("IVF_HNSW_SQ", "l2", {}),
    ],
)
def test_queries_at_once_find_what_each_finds_alone(tmp_path: Path, kind: str, metric: str, parameters: dict[str, Any]) -> None:
    values = vectors(rows=ROWS)
    values[5, 2] = np.nan
    dataset = lance.write_dataset(table(values, null=7), tmp_path / "t", max_rows_per_file=400)
    dataset.create_index("vec", kind, metric=metric, num_partitions=4, **parameters)
    dataset.delete("id % 7 = 5")
    ours = Dataset.open(str(tmp_path / "t"))
    for near in ({"k": 10, "nprobes": 2}, {"k": 3, "nprobes": 4, "refine_factor": 3}, {"k": 7, "distance_range": (0.5, 3.0)}):
        assert equals_single_searches(ours, near).num_rows
    # Less than k rows are in the first partition, so that queries search more of them.
    few = equals_single_searches(ours, {"k": 40, "minimum_nprobes": 1}, filter="id % 20 = 0", prefilter=True)
    assert few.num_rows > 30 * len(QUERIES)
    lance.write_dataset(table(vectors(rows=50, seed=3), first=ROWS), tmp_path / "t", mode="append")
    assert equals_single_searches(Dataset.open(str(tmp_path / "t")), {"k": 10, "nprobes": 2}).num_rows


def test_of_rows_at_one_distance_the_same_are_found(tmp_path: Path) -> None:
    dataset = lance.write_dataset(table(vectors(rows=ROWS)), tmp_path / "t")
    dataset.create_index("vec", "IVF_PQ", metric="l2", num_partitions=3, **FEW_CODES)
    near = {"column": "vec", "k": 10, "nprobes": 3}
    ours = Dataset.open(str(tmp_path / "t"))
    found = ours.scan(columns=["id"], nearest={**near, "q": QUERIES}).to_table()
    alone = [ours.scan(columns=["id"], nearest={**near, "q": query}).to_table() for query in QUERIES]
    # The last distance of some queries is that of other rows, too.
    more = [ours.scan(columns=["id"], nearest={**near, "k": 11, "q": query}).to_table()["_distance"].to_pylist() for query in QUERIES]
    assert any(distances[9] == distances[10] for distances in more)
    assert found["id"].to_pylist() == [id for own in alone for id in own["id"].to_pylist()]


def test_the_memory_of_many_queries_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_spark.table.search.segments._KEPT_BYTES", 1000)  # about seven queries at once
    monkeypatch.setattr("lance_spark.table.search.segments._BLOCK_BYTES", 5000)  # about three queries of a partition
    dataset = lance.write_dataset(table(vectors(rows=ROWS)), tmp_path / "t")
    dataset.create_index("vec", "IVF_FLAT", metric="l2", num_partitions=3)
    equals_single_searches(Dataset.open(str(tmp_path / "t")), {"k": 10, "nprobes": 2})
