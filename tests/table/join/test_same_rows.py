"""A nearest join finds the rows of single searches, with the same distances but for rounding, in whatever index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark import Dataset
from lance_spark.table.join import plan
from tests.table.join.test_steps import joined_with
from tests.table.search.vectors import DIMENSIONS, table, vectors

ROWS = 900
INDEXES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "IVF_PQ": ("float32", "l2", {"num_sub_vectors": 4}),
    "IVF_PQ dot": ("float32", "dot", {"num_sub_vectors": 1}),
    "IVF_PQ cosine": ("float16", "cosine", {"num_sub_vectors": 8, "num_bits": 4}),
    "IVF_FLAT": ("float64", "l2", {}),
    "IVF_FLAT hamming": ("uint8", "hamming", {}),
    "IVF_SQ": ("float32", "cosine", {}),
    "IVF_RQ": ("float32", "l2", {}),
    "IVF_HNSW_SQ": ("float32", "l2", {}),
    "none": ("float32", "cosine", {}),
}


@pytest.fixture(scope="module")
def table_with(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Dataset]:
    """The table for a kind of index: with null and NaN vectors, with several rows of one vector, and without rows that were deleted."""
    found = {}
    for name, (dtype, metric, parameters) in INDEXES.items():
        values = vectors(dtype, ROWS)
        values[300:400] = values[200:300]
        if values.dtype.kind == "f":
            values[5, 2] = np.nan
        dataset = Dataset.write(str(tmp_path_factory.mktemp("t") / "t"), table(values, null=7), max_rows_per_file=400)
        if name != "none":
            dataset = dataset.create_index("vec", name.split()[0], metric=metric, num_partitions=5, **parameters)
        found[name] = dataset.delete("id % 7 = 5")
    # A function, because Hypothesis shows the arguments of a test: all tables would be more text than it allows.
    return found.__getitem__


NEAR = st.fixed_dictionaries(
    {"k": st.integers(1, 60)},
    optional={
        "nprobes": st.integers(1, 5),
        "refine_factor": st.integers(1, 3),
        "distance_range": st.sampled_from([(None, 0.5), (0.2, None), (1.0, 400.0)]),
    },
)
CONDITIONS = st.sampled_from([None, "id % 3 = 0", "id > 850", "id < 0"])


@settings(max_examples=8)
@given(data=st.data())
@pytest.mark.parametrize("name", INDEXES)
def test_a_join_finds_what_each_question_finds_alone(table_with: Callable[[str], Dataset], name: str, data: st.DataObject) -> None:
    dataset, (dtype, metric, _) = table_with(name), INDEXES[name]
    near, condition = {**data.draw(NEAR), "metric": metric}, data.draw(CONDITIONS)
    chosen = data.draw(st.lists(st.sampled_from([*range(200, 240), *range(300, 320)]), min_size=1, max_size=30))
    moved = vectors(dtype, ROWS)
    moved[300:400] = moved[200:300]
    if moved.dtype.kind == "f":
        moved[200:240] += np.array(0.25, dtype)
    lists: list[list[float] | None] = [*moved[chosen].astype(np.float64).tolist(), None, [float("nan")] * DIMENSIONS]
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):
            patch.setattr(plan, "_GROUP_BYTES", 1)  # a task for each group, instead of tasks that search all
        found = joined_with(dataset, lists, 1000, condition, near)
    names = found["question"].combine_chunks().field("c0")
    for number, query in enumerate(lists):
        own = found.filter(pa.array([n == f"question {number}" for n in names.to_pylist()])).drop_columns(["question"])
        if number >= len(chosen):
            assert own.to_pylist() == [{"t0": None, "_distance": None}]
            continue
        q = np.array(query, "uint8" if dtype == "uint8" else "float64")
        alone = dataset.scan(columns=["id"], nearest={**near, "column": "vec", "q": q}, filter=condition, prefilter=True).to_table()
        expected = alone.to_pydict() if len(alone) else {"id": [None], "_distance": [None]}
        # A search compares the rows that its index leaves, and a join may compare all: products are added up in another order.
        assert own["t0"].to_pylist() == expected["id"]
        if expected["id"] != [None]:
            np.testing.assert_allclose(own["_distance"].to_numpy(), np.array(expected["_distance"]), rtol=1e-6, atol=1e-6)
