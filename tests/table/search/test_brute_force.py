"""Searches of columns without an index find the rows that pylance finds, with the same distances, columns and order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from tests.table.search.vectors import DIMENSIONS, ROWS, both, column, same, table, vectors

FLOATS = ["float16", "float32", "float64"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    values = vectors()
    values[5, 2] = np.nan
    lance.write_dataset(table(values, null=7), tmp_path / "t", max_rows_per_file=100).delete("id % 11 = 3")
    return tmp_path / "t"


@pytest.mark.parametrize("metric", [None, "l2", "euclidean", "COSINE", "dot"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_have_the_distances_of_pylance(tmp_path: Path, dtype: str, metric: str | None) -> None:
    values = vectors(dtype)
    lance.write_dataset(table(values, null=7), tmp_path / "t", max_rows_per_file=100)
    near = {"column": "vec", "q": values[40] + np.asarray(0.25, dtype), "k": 20, **({"metric": metric} if metric else {})}
    same(*both(tmp_path / "t", near, columns=["id"]))


@pytest.mark.parametrize("metric", [None, "hamming"])
def test_bytes_differ_in_bits(tmp_path: Path, metric: str | None) -> None:
    values = vectors("uint8")
    lance.write_dataset(table(values), tmp_path / "t")
    near = {"column": "vec", "q": values[40], "k": 20, **({"metric": metric} if metric else {})}
    same(*both(tmp_path / "t", near, columns=["id"]))


def test_small_integers_are_compared_as_numbers(tmp_path: Path) -> None:
    values = (vectors("int8") // 2).astype(np.int8)
    dataset = Dataset.write(str(tmp_path / "t"), table(values))
    found = dataset.scan(columns=["id"], nearest={"column": "vec", "q": values[40], "k": 3}).to_table()
    expected = np.sort(((values.astype(np.float32) - values[40]) ** 2).sum(axis=1))[:3]
    assert found["_distance"].to_pylist() == expected.tolist()


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("several", [True, False])
def test_a_row_with_several_vectors_is_as_near_as_its_nearest_ones(tmp_path: Path, metric: str, several: bool) -> None:
    values, offsets = vectors(), np.arange(0, ROWS + 1, 3, dtype=np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), column(values))
    lance.write_dataset(pa.table({"id": np.arange(len(lists)), "vec": lists}), tmp_path / "t")
    near = {"column": "vec", "q": values[40:43] if several else values[40], "k": 5, "metric": metric}
    same(*both(tmp_path / "t", near, columns=["id"]))


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_nulls_nan_and_under_cosine_zeros_are_never_found(path: Path, metric: str) -> None:
    ours, theirs = both(path, {"column": "vec", "q": vectors()[40], "k": ROWS, "metric": metric}, columns=["id"])
    same(ours, theirs)
    assert set(ours["id"].to_pylist()) == set(theirs["id"].to_pylist())


@pytest.mark.parametrize(
    "scan",
    [
        {},
        {"columns": ["id"]},
        {"columns": ["_distance", "id"]},
        {"columns": []},
        {"columns": ["_rowid", "id"]},
        {"columns": ["id"], "with_row_id": True, "with_row_address": True},
        {"columns": ["id"], "limit": 2},
        {"columns": ["id"], "limit": 50},
        {"columns": ["id"], "offset": 3},
        {"columns": ["id"], "offset": 3, "limit": 4},
        {"columns": ["id"], "filter": "id > 150"},
        {"columns": ["id"], "filter": "id > 150", "limit": 2},
        {"columns": ["id"], "filter": "id > 150", "prefilter": True},
        {"columns": ["id"], "filter": "kind = 'k3' AND id < 100", "prefilter": True, "offset": 2},
        {"columns": ["id"], "filter": "id < 0", "prefilter": True},
        {"columns": ["id"], "filter": "id < 0"},
    ],
)
@pytest.mark.parametrize("many", [False, True])
def test_columns_filters_limits_and_offsets_mean_what_they_mean_in_pylance(path: Path, scan: dict[str, Any], many: bool) -> None:
    q = np.nan_to_num(vectors()[40:42] if many else vectors()[40])
    same(*both(path, {"column": "vec", "q": q, "k": 10}, **scan))


@pytest.mark.parametrize("bounds", [(3.0, 8.0), (None, 5.0), (6.0, None)])
def test_distances_lie_in_the_range(path: Path, bounds: tuple[float | None, float | None]) -> None:
    same(*both(path, {"column": "vec", "q": vectors()[40], "k": 10, "distance_range": bounds}, columns=["id"]))


@pytest.mark.parametrize("form", [list, np.asarray, lambda v: pa.array(v, pa.float32()), lambda v: column(np.array([v], np.float32))[0]])
def test_a_query_is_a_list_or_an_array(path: Path, form: Any) -> None:
    same(*both(path, {"column": "vec", "q": form(vectors()[40].tolist()), "k": 3}, columns=["id"]))


def test_vectors_may_be_in_structs(tmp_path: Path) -> None:
    inner = pa.StructArray.from_arrays([column(vectors())], ["vec"])
    dataset = Dataset.write(str(tmp_path / "t"), pa.table({"id": np.arange(ROWS), "s": inner}))
    found = dataset.scan(columns=["id", "_distance"], nearest={"column": "s.vec", "q": vectors()[40], "k": 1}).to_table()
    assert found.to_pylist() == [{"id": 40, "_distance": 0.0}]


def test_an_empty_table_has_no_nearest_rows(tmp_path: Path) -> None:
    dataset = Dataset.write(str(tmp_path / "t"), table(vectors()[:0]))
    found = dataset.scan(nearest={"column": "vec", "q": [0.0] * DIMENSIONS}).to_table()
    assert (found.num_rows, found.column_names) == (0, ["id", "kind", "vec", "_distance"])


def test_a_search_counts_its_rows(path: Path) -> None:
    near = {"column": "vec", "q": vectors()[40], "k": 10}
    assert Dataset.open(str(path)).scan(nearest=near, filter="id > 150", prefilter=True).count_rows() == 10
    assert Dataset.open(str(path)).scan(nearest=near, limit=4).count_rows() == 4
