"""Rows with lists of vectors are found by an index, of ours and of pylance, after every change of the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.table.search.late_interaction import estimated_distances
from tests.table.search.vectors import DIMENSIONS, both, column, same, vectors

ROWS = 240
KINDS: dict[str, dict[str, Any]] = {
    "IVF_FLAT": {},
    "IVF_PQ": {"num_sub_vectors": 4},
    "IVF_SQ": {},
    "IVF_RQ": {},
    "IVF_HNSW_FLAT": {},
    "IVF_HNSW_SQ": {},
    "IVF_HNSW_PQ": {"num_sub_vectors": 4},
}
PLAIN = ("IVF_PQ", "IVF_HNSW_SQ")
MORE_ROWS = {"column": "vec", "k": 8, "nprobes": 2, "refine_factor": ROWS}
"""All rows are refined, so that the rows of all kinds are those of pylance."""


def rows(count: int = ROWS, first: int = 0) -> pa.Table:
    """Rows with 0 to 6 vectors; a null list, a list with a null vector, and one with zeros only."""
    rng = np.random.default_rng(first)
    counts = rng.integers(0, 7, count)
    counts[3] = 2
    values = vectors(rows=int(counts.sum()), seed=first + 1)
    offsets = np.append(0, np.cumsum(counts)).tolist()
    starts: list[int | None] = [*offsets]
    starts[5] = None
    lists = pa.ListArray.from_arrays(pa.array(starts, pa.int32()), column(values, null=offsets[3]))
    ids = np.arange(first, first + count)
    return pa.table({"id": ids, "kind": [f"k{i % 7}" for i in ids], "vec": lists})


def asked(count: int) -> np.ndarray:
    found = vectors(rows=40, seed=9)[7 : 7 + count]
    return found if count > 1 else found[0]


def write(path: Path, maker: str, kind: str, stable: bool = False) -> None:
    lance.write_dataset(rows(), path, max_rows_per_file=90, enable_stable_row_ids=stable)
    given = {"metric": "cosine", "num_partitions": 2, **KINDS[kind]}
    if maker == "pylance":
        lance.dataset(path).create_index("vec", kind, **given)
    else:
        Dataset.open(str(path)).create_index("vec", kind, **given)


CHANGES: dict[str, Callable[[Dataset], Any]] = {
    "as it was": lambda t: None,
    "deleted rows": lambda t: t.delete("id % 3 = 1"),
    "updated rows": lambda t: t.update({"id": "id + 1000"}, "id % 5 = 2"),
    "rows without an index": lambda t: Dataset.write(t.uri, rows(60, 500), "append"),
    "compaction": lambda t: t.delete("id % 4 = 0").optimize.compact_files(),
    "another segment": lambda t: Dataset.write(t.uri, rows(60, 500), "append").optimize.optimize_indices(num_indices_to_merge=0),
}


@pytest.mark.matrix
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("maker", ["pylance", "ours"])
@pytest.mark.parametrize("kind", [k if k in PLAIN else pytest.param(k, marks=pytest.mark.slow) for k in KINDS])
def test_rows_are_those_of_pylance(tmp_path: Path, kind: str, maker: str, change: str) -> None:
    path = tmp_path / "t"
    write(path, maker, kind, stable=kind == "IVF_SQ")
    CHANGES[change](Dataset.open(str(path)))
    for count in (1, 4):
        near = {**MORE_ROWS, "q": asked(count)}
        same(*both(path, near, columns=["id"]))
        ours, theirs = both(path, near, columns=["id"], filter="kind IN ('k1', 'k4')", prefilter=True)
        same(ours, theirs)
        assert len(ours) == MORE_ROWS["k"]


@pytest.mark.parametrize("kind", [k if k in PLAIN else pytest.param(k, marks=pytest.mark.slow) for k in KINDS])
def test_without_options_the_nearest_rows_are_found(tmp_path: Path, kind: str) -> None:
    write(tmp_path / "t", "ours", kind)
    table = Dataset.open(str(tmp_path / "t"))
    for count in (1, 3, 6):
        near = {"column": "vec", "q": asked(count), "k": 5}
        exact = table.scan(columns=["id"], nearest={**near, "metric": "cosine", "use_index": False}).to_table()
        same(table.scan(columns=["id"], nearest=near).to_table(), exact)


def test_few_candidates_are_those_of_pylance(tmp_path: Path) -> None:
    write(tmp_path / "t", "pylance", "IVF_FLAT")
    for refine_factor in (1, 2):
        same(*both(tmp_path / "t", {"column": "vec", "q": asked(5), "k": 4, "nprobes": 2, "refine_factor": refine_factor}, columns=["id"]))


def test_a_row_that_was_not_found_for_a_vector_counts_as_the_farthest_one() -> None:
    first = np.array([0.1, 0.2, 0.4], np.float32), np.array([7, 5, 7], np.uint64)
    second = np.array([0.3], np.float32), np.array([9], np.uint64)
    nothing = np.empty(0, np.float32), np.empty(0, np.uint64)
    estimates = estimated_distances([first, second, nothing], np.array([5, 7, 9], np.uint64))
    np.testing.assert_allclose(estimates, [0.2 + 0.3 + 1, 0.1 + 0.3 + 1, 0.4 + 0.3 + 1], rtol=1e-6)


def test_a_filter_that_leaves_few_rows_finds_all_of_them(tmp_path: Path) -> None:
    write(tmp_path / "t", "ours", "IVF_FLAT")
    table = Dataset.open(str(tmp_path / "t"))
    near = {"column": "vec", "q": asked(4), "k": 10, "minimum_nprobes": 1}
    found = table.scan(columns=["id"], nearest=near, filter="id >= 100 AND id < 112", prefilter=True).to_table()
    exact = {**near, "metric": "cosine", "use_index": False}
    same(found, table.scan(columns=["id"], nearest=exact, filter="id >= 100 AND id < 112", prefilter=True).to_table())
    assert 5 < len(found) <= 10


def test_a_range_bounds_the_sum_of_the_distances(tmp_path: Path) -> None:
    write(tmp_path / "t", "ours", "IVF_FLAT")
    table = Dataset.open(str(tmp_path / "t"))
    near = {"column": "vec", "q": asked(3), "k": ROWS}
    every = table.scan(columns=["id"], nearest={**near, "nprobes": 2}).to_table()["_distance"].to_numpy()
    found = table.scan(columns=["id"], nearest={**near, "nprobes": 2, "distance_range": (0.5, 1.5)}).to_table()["_distance"].to_numpy()
    np.testing.assert_array_equal(found, every[(every >= 0.5) & (every < 1.5)])
    assert len(found)


def test_fast_search_leaves_out_what_the_index_does_not_cover(tmp_path: Path) -> None:
    write(tmp_path / "t", "pylance", "IVF_FLAT")
    near = {"column": "vec", "q": asked(3), "k": 5, "nprobes": 2}
    before = Dataset.open(str(tmp_path / "t")).scan(columns=["id"], nearest=near).to_table()
    again = rows().set_column(0, "id", pa.array(range(1000, 1000 + ROWS)))
    table = Dataset.write(str(tmp_path / "t"), again, "append")
    same(table.scan(columns=["id"], nearest=near, fast_search=True).to_table(), before)
    explained = table.scan(nearest=near, fast_search=True).explain()
    assert "metric cosine" in explained
    assert "index: vec_idx (IVF_FLAT), a segment of 240 rows in 3 fragments; 2 of 2 partitions" in explained
    assert "vectors of all rows that the index finds for a vector of the query" in explained
    assert table.scan(columns=["id"], nearest=near).to_table()["id"][1].as_py() >= 1000


def test_a_metric_that_the_index_does_not_have_is_searched_without_it(tmp_path: Path) -> None:
    write(tmp_path / "t", "pylance", "IVF_FLAT")
    table = Dataset.open(str(tmp_path / "t"))
    near = {"column": "vec", "q": asked(2), "k": 5, "metric": "l2"}
    assert "indexes: none" in table.scan(nearest=near).explain()
    same(*both(tmp_path / "t", {**near, "use_index": False}, columns=["id"]))
    same(table.scan(columns=["id"], nearest=near).to_table(), table.scan(columns=["id"], nearest={**near, "use_index": False}).to_table())


def test_a_damaged_index_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "t", "pylance", "IVF_FLAT")
    (codes,) = (tmp_path / "t/_indices").glob("*/auxiliary.idx")
    near = {"column": "vec", "q": asked(2), "k": 5}
    before = Dataset.open(str(tmp_path / "t")).scan(columns=["id"], nearest=near).to_table()
    codes.write_bytes(codes.read_bytes()[:-200])
    same(Dataset.open(str(tmp_path / "t")).scan(columns=["id"], nearest=near).to_table(), before)


def test_dimensions_of_the_query_are_those_of_each_vector(tmp_path: Path) -> None:
    write(tmp_path / "t", "ours", "IVF_FLAT")
    flat = np.concatenate([asked(2)[0], asked(2)[1]])
    with pytest.raises(Exception, match=f"q has {2 * DIMENSIONS} dimensions"):
        Dataset.open(str(tmp_path / "t")).scan(nearest={"column": "vec", "q": flat, "k": 5}).to_table()
