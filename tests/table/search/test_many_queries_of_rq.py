"""Many queries of an index of RQ find the rows, with the distances, that each finds alone, to the last bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset

ROWS, QUERIES = 700, 24


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with an index for each metric and number of bits, of which some rows are deleted."""
    found = tmp_path_factory.mktemp("rq") / "t"
    values = np.random.default_rng(2).normal(size=(ROWS, 40)).astype(np.float32)
    values[5] = values[9]
    column = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 40)
    Dataset.write(found, pa.table({"id": np.arange(ROWS), "vec": column})).delete("id % 11 = 3")
    return found


@pytest.mark.matrix
@pytest.mark.parametrize("mode", ["normal", "fast", "accurate"])
@pytest.mark.parametrize(("metric", "bits"), [("l2", 5), ("l2", 1), ("cosine", 9), ("dot", 5), ("dot", 2)])
def test_many_queries_find_what_each_finds_alone(path: Path, metric: str, bits: int, mode: str) -> None:
    table = Dataset.open(path)
    if f"{metric}{bits}" not in {index["name"] for index in table.list_indices()}:
        for index in table.list_indices():
            table = table.drop_index(index["name"])
        table = table.create_index("vec", "IVF_RQ", f"{metric}{bits}", metric, num_partitions=3, num_bits=bits)
    queries = np.random.default_rng(3).normal(size=(QUERIES, 40)).astype(np.float32)
    near: dict[str, Any] = {"column": "vec", "k": 9, "nprobes": 2, "approx_mode": mode}
    for filter in (None, "id % 3 = 0"):
        scan: dict[str, Any] = {"filter": filter, "prefilter": filter is not None}
        many = table.scan(["id", "_distance"], nearest={**near, "q": queries}, **scan).to_table()
        alone = [table.scan(["id", "_distance"], nearest={**near, "q": q}, **scan).to_table() for q in queries]
        assert many.select(["id", "_distance"]).to_pydict() == pa.concat_tables(alone).to_pydict()
