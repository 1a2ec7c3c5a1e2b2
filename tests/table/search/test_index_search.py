"""Searches through vector indexes that pylance made find the rows that pylance finds, with the same distances."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pytest

from lance_spark import Dataset
from lance_spark.errors import CorruptFileError
from tests.table.search.vectors import DIMENSIONS, both, same, table, vectors

ROWS = 1200
PQ: dict[str, Any] = {"num_sub_vectors": 4}
KINDS: list[tuple[str, str, dict[str, Any]]] = [
    ("IVF_FLAT", "l2", {}),
    ("IVF_FLAT", "cosine", {}),
    ("IVF_FLAT", "dot", {}),
    ("IVF_PQ", "l2", PQ),
    ("IVF_PQ", "cosine", PQ),
    ("IVF_PQ", "dot", PQ),
    ("IVF_PQ", "l2", {"num_sub_vectors": 4, "num_bits": 4}),
    ("IVF_SQ", "l2", {}),
    ("IVF_SQ", "cosine", {}),
    ("IVF_SQ", "dot", {}),
    ("IVF_HNSW_FLAT", "l2", {}),
    ("IVF_HNSW_SQ", "cosine", {}),
    ("IVF_HNSW_PQ", "l2", PQ),
    ("IVF_RQ", "l2", {}),
    ("IVF_RQ", "l2", {"num_bits": 1}),
    ("IVF_RQ", "cosine", {"num_bits": 8}),
    ("IVF_RQ", "dot", {}),
    ("IVF_RQ", "dot", {"num_bits": 1}),
]


def indexed(path: Path, kind: str = "IVF_PQ", metric: str = "l2", **parameters: Any) -> Any:
    """A table of pylance in three fragments with an index."""
    values = vectors(rows=ROWS)
    values[5, 2] = np.nan
    dataset = lance.write_dataset(table(values, null=7), path, max_rows_per_file=400)
    dataset.create_index("vec", kind, metric=metric, num_partitions=4, **parameters)
    return lance.dataset(path)


def query(number: int = 40) -> np.ndarray:
    """A vector near some rows of the table."""
    return np.asarray(vectors(rows=ROWS)[number] + 0.25, np.float32)


@pytest.mark.parametrize(("kind", "metric", "parameters"), KINDS)
def test_every_kind_of_index_gives_the_rows_of_pylance(tmp_path: Path, kind: str, metric: str, parameters: dict[str, Any]) -> None:
    indexed(tmp_path / "t", kind, metric, **parameters)
    # Many rows have the same code of 4 bits; with this refine_factor, it does not matter which of them are refined.
    for search in ({"nprobes": 1}, {"nprobes": 4}, {"nprobes": 4, "refine_factor": 30}, {"nprobes": 2, "ef": 60}):
        near = {"column": "vec", "q": query(), "k": 10, **search}
        same(*both(tmp_path / "t", near, columns=["id"]))
    assert f"({kind})" in Dataset.open(str(tmp_path / "t")).scan(nearest={"column": "vec", "q": query()}).explain()


@pytest.mark.parametrize("kind", ["IVF_SQ", "IVF_HNSW_SQ"])
def test_products_of_halves_are_as_exact_as_those_of_pylance(tmp_path: Path, kind: str) -> None:
    values = vectors("float16", ROWS)
    lance.write_dataset(table(values), tmp_path / "t").create_index("vec", kind, metric="dot", num_partitions=2)
    same(*both(tmp_path / "t", {"column": "vec", "q": values[40], "k": 10, "nprobes": 2}, columns=["id"]))


def test_bytes_are_searched_by_an_index(tmp_path: Path) -> None:
    rows = table(vectors("uint8", ROWS))
    lance.write_dataset(rows, tmp_path / "t").create_index("vec", "IVF_FLAT", metric="hamming", num_partitions=4)
    near = {"column": "vec", "q": vectors("uint8", ROWS)[40], "k": 10}
    same(*both(tmp_path / "t", {**near, "nprobes": 4}, columns=["id"]))
    # pylance counts partitions without rows as searched ones, and k-modes often leaves some: ours may be nearer.
    ours, theirs = both(tmp_path / "t", {**near, "nprobes": 2}, columns=["id"])
    assert (ours["_distance"].to_numpy() <= theirs["_distance"].to_numpy()).all()


@pytest.mark.parametrize("num_bits", [1, 5])
def test_codes_of_rq_are_compared_as_in_pylance(tmp_path: Path, num_bits: int) -> None:
    indexed(tmp_path / "t", "IVF_RQ", num_bits=num_bits)
    # The query itself is rounded to steps, here of about 0.003. A number between two steps may be rounded the other way.
    close = 0.02
    found: dict[str, list[float]] = {"fast": [], "normal": [], "accurate": []}
    for mode, distances in found.items():
        near = {"column": "vec", "k": 10, "nprobes": 4, "approx_mode": mode}
        queries = [query(), query(41), query(42)]
        for q in queries:
            ours, theirs = both(tmp_path / "t", {**near, "q": q}, columns=["id"])
            same(ours, theirs, close)
            distances += ours["_distance"].to_pylist()
        together = Dataset.open(str(tmp_path / "t")).scan(columns=["id"], nearest={**near, "q": queries}).to_table()
        np.testing.assert_allclose(together["_distance"].to_numpy(), distances, rtol=1e-4, atol=close)
    assert found["accurate"] != found["normal"]
    assert (found["fast"] == found["normal"]) == (num_bits == 1)


@pytest.mark.parametrize("mode", ["fast", "accurate"])
@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_HNSW_SQ"])
def test_other_indexes_ignore_how_codes_are_compared(tmp_path: Path, kind: str, mode: str) -> None:
    indexed(tmp_path / "t", kind, **(PQ if kind == "IVF_PQ" else {}))
    dataset = Dataset.open(str(tmp_path / "t"))
    near = {"column": "vec", "q": query(), "k": 10}
    normal, other = (dataset.scan(columns=["id"], nearest={**near, **more}).to_table() for more in ({}, {"approx_mode": mode}))
    assert other.equals(normal)


def change_delete(dataset: Any) -> None:
    dataset.delete("id % 7 = 5")


def change_append(dataset: Any) -> None:
    lance.write_dataset(table(vectors(rows=200, seed=3), first=ROWS), dataset.uri, mode="append")


def change_delta(dataset: Any) -> None:
    change_append(dataset)
    lance.dataset(dataset.uri).optimize.optimize_indices(num_indices_to_merge=0)
    change_delete(lance.dataset(dataset.uri))


def change_compact(dataset: Any) -> None:
    change_delete(dataset)
    lance.dataset(dataset.uri).optimize.compact_files()


def change_compact_and_defer(dataset: Any) -> None:
    change_delete(dataset)
    lance.dataset(dataset.uri).optimize.compact_files(defer_index_remap=True)


def change_update(dataset: Any) -> None:
    dataset.update({"kind": "'new'"}, where="id < 100")


@pytest.mark.matrix
@pytest.mark.parametrize("change", [change_delete, change_append, change_delta, change_compact, change_compact_and_defer, change_update])
@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ"])
def test_an_index_follows_the_table(tmp_path: Path, kind: str, change: Callable[[Any], None]) -> None:
    change(indexed(tmp_path / "t", kind, **(PQ if kind == "IVF_PQ" else {})))
    for number in (40, 200):
        near = {"column": "vec", "q": query(number), "k": 20, "nprobes": 4}
        same(*both(tmp_path / "t", near, columns=["id"]))
        same(*both(tmp_path / "t", near, columns=["id"], filter="id > 90", prefilter=True))


@pytest.mark.parametrize("change", [change_delete, change_compact, change_update])
def test_stable_row_ids_are_found(tmp_path: Path, change: Callable[[Any], None]) -> None:
    dataset = lance.write_dataset(table(vectors(rows=ROWS)), tmp_path / "t", max_rows_per_file=400, enable_stable_row_ids=True)
    dataset.create_index("vec", "IVF_FLAT", metric="l2", num_partitions=4)
    change(lance.dataset(tmp_path / "t"))
    ours = Dataset.open(str(tmp_path / "t"))
    near = {"column": "vec", "q": query(), "k": 20}
    found = ours.scan(columns=["id"], nearest={**near, "nprobes": 4}).to_table()
    same(found, ours.scan(columns=["id"], nearest={**near, "use_index": False}).to_table())


def test_rows_that_were_deleted_and_compacted_away_do_not_count(tmp_path: Path) -> None:
    """With stable row ids, pylance counts them among the k rows of its index, and finds fewer."""
    values = vectors(rows=ROWS)
    dataset = lance.write_dataset(table(values), tmp_path / "t", max_rows_per_file=400, enable_stable_row_ids=True)
    dataset.create_index("vec", "IVF_FLAT", metric="l2", num_partitions=2)
    near = {"column": "vec", "q": values[40], "k": 10, "nprobes": 2}
    nearest = Dataset.open(str(tmp_path / "t")).scan(columns=["id"], nearest=near, limit=6).to_table()["id"].to_pylist()
    lance.dataset(tmp_path / "t").delete(f"id IN ({', '.join(map(str, nearest))})")
    lance.dataset(tmp_path / "t").optimize.compact_files()
    ours, theirs = both(tmp_path / "t", near, columns=["id"])
    assert (len(ours), len(theirs)) == (10, 4)
    same(ours, lance.dataset(tmp_path / "t").to_table(columns=["id"], nearest={**near, "use_index": False}))


def test_many_queries_are_searched_one_by_one(tmp_path: Path) -> None:
    indexed(tmp_path / "t", **PQ)
    q = np.stack([query(40), query(41)])
    same(*both(tmp_path / "t", {"column": "vec", "q": q, "k": 5, "nprobes": 4}, columns=["id"]))


@pytest.mark.parametrize("prefilter", [True, False])
def test_filters_are_applied_before_or_after(tmp_path: Path, prefilter: bool) -> None:
    indexed(tmp_path / "t", **PQ).create_scalar_index("id", "BTREE")
    near = {"column": "vec", "q": query(), "k": 10, "nprobes": 4}
    same(*both(tmp_path / "t", near, columns=["id"], filter="id > 600 AND kind = 'k3'", prefilter=prefilter))


def test_more_partitions_are_searched_until_there_are_k_rows(tmp_path: Path) -> None:
    indexed(tmp_path / "t", **PQ)
    dataset = Dataset.open(str(tmp_path / "t"))
    there = dataset.count_rows("id % 2 = 0")
    near = {"column": "vec", "q": query(), "k": there, "minimum_nprobes": 1}
    found = dataset.scan(columns=["id"], nearest=near, filter="id % 2 = 0", prefilter=True).to_table()
    assert found.num_rows == there
    few = dataset.scan(columns=["id"], nearest={**near, "maximum_nprobes": 1}, filter="id % 2 = 0", prefilter=True).to_table()
    assert few.num_rows < there


def test_fast_search_leaves_out_rows_without_an_index(tmp_path: Path) -> None:
    change_append(indexed(tmp_path / "t", "IVF_FLAT"))
    near = {"column": "vec", "q": vectors(rows=200, seed=3)[7], "k": 5, "nprobes": 4}
    dataset = Dataset.open(str(tmp_path / "t"))
    assert dataset.scan(columns=["id"], nearest=near).to_table()["id"][0].as_py() == ROWS + 7
    search = dataset.scan(columns=["id"], nearest=near, fast_search=True)
    assert max(search.to_table()["id"].to_pylist()) < ROWS
    assert "left out: 200 rows in 1 fragments" in search.explain()


def test_another_metric_than_that_of_the_index_is_searched_without_it(tmp_path: Path) -> None:
    indexed(tmp_path / "t", **PQ)
    near = {"column": "vec", "q": query(), "k": 5, "metric": "dot"}
    assert "indexes: none" in Dataset.open(str(tmp_path / "t")).scan(nearest=near).explain()
    same(*both(tmp_path / "t", near, columns=["id"]))


def test_a_query_that_is_too_long_to_be_scaled_finds_no_rows_by_cosine(tmp_path: Path) -> None:
    indexed(tmp_path / "t", "IVF_HNSW_FLAT", metric="cosine")
    near = {"column": "vec", "q": np.full(DIMENSIONS, 1e30, np.float32), "k": 5, "nprobes": 4}
    assert Dataset.open(str(tmp_path / "t")).scan(columns=["id"], nearest=near).to_table().num_rows == 0


def test_explain_says_what_is_searched(tmp_path: Path) -> None:
    indexed(tmp_path / "t", **PQ)
    near = {"column": "vec", "q": query(), "k": 5, "nprobes": 2, "refine_factor": 3}
    text = Dataset.open(str(tmp_path / "t")).scan(nearest=near, filter="id > 3", prefilter=True).explain()
    assert text.splitlines()[1:] == [
        "  nearest: column 'vec', k=5, metric l2",
        "  filter: id > 3 (before the search)",
        "  index: vec_idx (IVF_PQ), a segment of 1200 rows in 3 fragments; "
        "2 of 4 partitions are searched, and up to 2 until 5 rows are found",
        "  distances are computed from the vectors of 15 rows of the index",
        "  compared with every vector: 0 rows in 0 fragments",
    ]


@pytest.mark.parametrize("file", ["index.idx", "auxiliary.idx"])
@pytest.mark.parametrize("damage", ["missing", "cut", "zeros"])
def test_a_damaged_index_is_not_used(tmp_path: Path, file: str, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    indexed(tmp_path / "t", **PQ)
    (path,) = (tmp_path / "t" / "_indices").glob(f"*/{file}")
    data = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(data[: len(data) // 2] if damage == "cut" else bytes(len(data)))
    near = {"column": "vec", "q": query(), "k": 5}
    dataset = Dataset.open(str(tmp_path / "t"))
    with caplog.at_level(logging.WARNING):
        found = dataset.scan(columns=["id"], nearest=near).to_table()
    same(found, dataset.scan(columns=["id"], nearest={**near, "use_index": False}).to_table())
    assert "a segment of index 'vec_idx' is not used" in caplog.text


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_HNSW_SQ", "IVF_RQ"])
def test_a_lost_index_is_replaced_by_a_search_with_its_metric(tmp_path: Path, kind: str) -> None:
    """The manifest tells the metric; that of old writers does not, which is an error that names the file."""
    indexed(tmp_path / "t", kind, metric="cosine", **(PQ if "PQ" in kind else {}))
    shutil.rmtree(tmp_path / "t" / "_indices")
    near = {"column": "vec", "q": query(), "k": 5}
    table = Dataset.open(str(tmp_path / "t"))
    expected = table.scan(["id"], nearest={**near, "use_index": False, "metric": "cosine"}).to_table()
    for fast_search in (False, True):
        same(table.scan(["id"], nearest=near, fast_search=fast_search).to_table(), expected)
    assert "metric cosine" in table.scan(nearest=near).explain()
    with pytest.raises(CorruptFileError, match=r"index\.idx.*give the parameter 'metric'"):
        silent(table).scan(nearest=near).to_table()


def silent(table: Dataset) -> Dataset:
    """The table with a manifest that does not tell the metrics of indexes, as that of old writers."""
    indexes = tuple(replace(index, details=b"") for index in table.snapshot.manifest.indexes)
    return Dataset(replace(table.snapshot, manifest=replace(table.snapshot.manifest, indexes=indexes)))


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_HNSW_SQ", "IVF_RQ"])
def test_a_file_that_is_left_tells_the_metric(tmp_path: Path, kind: str) -> None:
    indexed(tmp_path / "t", kind, metric="cosine", **(PQ if "PQ" in kind else {}))
    (codes,) = (tmp_path / "t" / "_indices").glob("*/auxiliary.idx")
    codes.unlink()
    table = silent(Dataset.open(str(tmp_path / "t")))
    near = {"column": "vec", "q": query(), "k": 5}
    expected = table.scan(["id"], nearest={**near, "use_index": False, "metric": "cosine"}).to_table()
    same(table.scan(["id"], nearest=near).to_table(), expected)


@pytest.mark.skipif("LANCE_SPARK_CORPUS" not in os.environ, reason="LANCE_SPARK_CORPUS does not name the corpus's folder")
def test_codes_that_no_version_of_pylance_searches_are_as_if_there_was_no_index() -> None:
    """HNSW_PQ of pylance 0.24: pylance, also that version, compares all vectors, and by l2 whatever the metric of the index is."""
    path = Path(os.environ["LANCE_SPARK_CORPUS"], "indexes", "p0241_ivf_hnsw_pq_updated.lance")
    q = lance.dataset(path).to_table(columns=["vec"], limit=1)["vec"][0].as_py()
    same(*both(path, {"column": "vec", "q": np.array(q, np.float32) + 0.1, "k": 10}, columns=["id"]))


def test_recall_is_the_share_of_the_nearest_rows_that_are_found(tmp_path: Path) -> None:
    indexed(tmp_path / "t", num_sub_vectors=1)
    dataset = Dataset.open(str(tmp_path / "t"))
    queries = np.stack([query(number) for number in range(20, 40)])
    coarse, refined = (dataset.recall("vec", queries, 10, nprobes=4, **more) for more in ({}, {"refine_factor": 20}))
    assert 0 < coarse < refined <= 1
    assert dataset.recall("vec", queries, 10, use_index=False) == 1
