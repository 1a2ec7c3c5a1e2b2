"""Vector indexes that are made and kept by this package find the rows of a search without them, here and in pylance."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError, LanceError
from lance_spark.index.vector.make.gather import Gathered
from lance_spark.index.vector.make.kmeans import kmeans
from lance_spark.index.vector.make.nearest import nearest_of
from lance_spark.operations import CreateIndex
from tests.sample import others_slow
from tests.table.search.vectors import DIMENSIONS, both, column, same, table, vectors

ROWS = 1200
PQ: dict[str, Any] = {"num_sub_vectors": 4}
KINDS: list[tuple[str, str, dict[str, Any]]] = [
    *(("IVF_FLAT", metric, {}) for metric in ("l2", "cosine", "dot")),
    *(("IVF_PQ", metric, PQ) for metric in ("l2", "cosine", "dot")),
    ("IVF_PQ", "l2", {**PQ, "num_bits": 4}),
    *(("IVF_SQ", metric, {}) for metric in ("l2", "cosine", "dot")),
    ("IVF_HNSW_FLAT", "dot", {}),
    ("IVF_HNSW_SQ", "l2", {"m": 10, "ef_construction": 60}),
    ("IVF_HNSW_PQ", "cosine", {**PQ, "num_bits": 4}),
    ("IVF_RQ", "l2", {"num_bits": 8}),
    ("IVF_RQ", "cosine", {}),
]


def near(q: np.ndarray, k: int = 10, **more: Any) -> dict[str, Any]:
    return {"column": "vec", "q": q, "k": k, **more}


FOUND = [
    *(("float32", *kind) for kind in KINDS),
    *((dtype, *KINDS[i]) for dtype in ("float16", "float64") for i in (0, 4, 8)),
]
# Graphs take seconds; the test of both writers below has two of them.
QUICKLY_FOUND = [case for case in FOUND if "HNSW" not in case[1]]


@pytest.mark.matrix
@pytest.mark.parametrize(("dtype", "kind", "metric", "given"), others_slow(FOUND, QUICKLY_FOUND))
def test_pylance_finds_the_rows_that_we_find(tmp_path: Path, kind: str, metric: str, given: dict[str, Any], dtype: str) -> None:
    values = vectors(dtype, ROWS)
    values[5, 2] = np.nan
    made = Dataset.write(tmp_path, table(values, null=7), max_rows_per_file=500)
    made = made.create_index("vec", kind, metric=metric, num_partitions=6, **given)
    assert [(i["name"], i["type"], i["fragment_ids"]) for i in made.list_indices()] == [("vec_idx", kind, {0, 1, 2})]
    for q in values[40:44] + np.asarray(0.25, dtype):
        same(*both(tmp_path, near(q, nprobes=2), columns=["id"]))
        ours, theirs = both(tmp_path, near(q, nprobes=6, refine_factor=30), columns=["id"])
        same(ours, theirs)
        exact = made.scan(columns=["id"], nearest=near(q, metric=metric, use_index=False)).to_table()
        assert ours["id"].to_pylist() == exact["id"].to_pylist()
    everything = made.scan(columns=["id"], nearest=near(values[40], ROWS)).to_table()["id"].to_pylist()
    expected = {*range(1 if metric == "cosine" else 0, ROWS)} - {5, 7}
    assert len(everything) == len({*everything})
    assert {*everything} <= expected
    # No path of a graph leads to a few vectors, as in pylance.
    assert len(everything) >= (0.99 if "HNSW" in kind else 1) * len(expected)
    assert made.verify().ok


@pytest.mark.parametrize("kind", others_slow(["IVF_FLAT", "IVF_HNSW_FLAT"], ["IVF_FLAT"]))
def test_bytes_are_indexed_by_their_bits(tmp_path: Path, kind: str) -> None:
    values = np.random.default_rng(1).integers(0, 256, (ROWS, DIMENSIONS)).astype(np.uint8)
    made = Dataset.write(tmp_path, table(values)).create_index("vec", kind, metric="hamming", num_partitions=4)
    same(*both(tmp_path, near(values[40], nprobes=2), columns=["id"]))
    assert made.verify().ok


RECALLED: list[tuple[str, dict[str, Any]]] = [
    *(("IVF_FLAT", {}), ("IVF_PQ", PQ), ("IVF_SQ", {}), ("IVF_RQ", {"metric": "dot"}), ("IVF_RQ", {"num_bits": 1})),
    *(("IVF_HNSW_FLAT", {"metric": "cosine"}), ("IVF_HNSW_SQ", {"m": 4, "ef_construction": 20}), ("IVF_HNSW_PQ", PQ)),
]


@pytest.mark.parametrize(("kind", "given"), others_slow(RECALLED, [RECALLED[1], RECALLED[3]]))
@pytest.mark.parametrize("shape", ["clustered", pytest.param("uniform", marks=pytest.mark.slow)])
def test_recall_and_size_are_those_of_an_index_of_pylance(tmp_path: Path, kind: str, given: dict[str, Any], shape: str) -> None:
    """With the same centroids: otherwise those of pylance, which begin at random, decide."""
    rng = np.random.default_rng(0)
    values = rng.random((3000, 32), dtype=np.float32)
    if shape == "clustered":
        centres = rng.normal(size=(40, 32))
        values = (centres[rng.integers(0, 40, 3000)] + rng.normal(scale=0.5, size=(3000, 32))).astype(np.float32)
    centroids, queries = (
        values[rng.choice(3000, 8, replace=False)],
        values[::10] + rng.normal(scale=0.05, size=(300, 32)).astype(np.float32),
    )
    sizes, recalls = [], []
    for writer in ("ours", "theirs"):
        Dataset.write(tmp_path / writer, table(values))
        maker: Any = Dataset.open(tmp_path / writer) if writer == "ours" else lance.dataset(tmp_path / writer)
        maker.create_index("vec", kind, num_partitions=8, ivf_centroids=centroids, **given)
        made = Dataset.open(tmp_path / writer)
        lance.dataset(tmp_path / writer).validate()
        recalls.append(made.recall("vec", queries, k=10, nprobes=3))
        sizes.append(made.index_statistics("vec_idx")["size_bytes"])
    # The rotation of RQ is random, and so are the levels of pylance's graphs: that of one bit, and of graphs with few edges, decides about
    # three of a hundred rows (0.885 to 0.912 in twelve indexes of pylance).
    assert recalls[0] > recalls[1] - (0.04 if given.get("num_bits") == 1 or "m" in given else 0.02)
    assert sizes[0] <= 1.05 * sizes[1]


@pytest.mark.matrix
@pytest.mark.parametrize("count", [16, 300])
@pytest.mark.parametrize("shape", ["clustered", "uniform"])
def test_centroids_are_as_near_to_the_vectors_as_those_of_pylance(tmp_path: Path, shape: str, count: int) -> None:
    rng = np.random.default_rng(0)
    values = rng.random((20_000, 16), dtype=np.float32) if shape == "uniform" else vectors(rows=20_000)
    distances = []
    for writer in ("ours", "theirs"):
        Dataset.write(tmp_path / writer, table(values))
        maker: Any = Dataset.open(tmp_path / writer) if writer == "ours" else lance.dataset(tmp_path / writer)
        maker.create_index("vec", "IVF_FLAT", num_partitions=count)
        (told,) = lance.dataset(tmp_path / writer).stats.index_stats("vec_idx")["indices"]
        distances.append(nearest_of(values, np.asarray(told["centroids"], np.float32))[1].mean())
    assert distances[0] < 1.05 * distances[1]


@pytest.mark.matrix
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize(("kind", "metric", "given"), [KINDS[0], KINDS[4], KINDS[6], KINDS[9], KINDS[11], KINDS[14]])
@pytest.mark.parametrize("maker", ["ours", "theirs"])
def test_both_writers_keep_the_index(tmp_path: Path, kind: str, metric: str, given: dict[str, Any], stable: bool, maker: str) -> None:
    values = vectors(rows=ROWS)
    made = Dataset.write(tmp_path, table(values), max_rows_per_file=500, enable_stable_row_ids=stable)
    if maker == "ours":
        made.create_index("vec", kind, metric=metric, num_partitions=3, **given)
    else:
        lance.dataset(tmp_path).create_index("vec", kind, metric=metric, num_partitions=3, **given)

    def check(segments: int) -> None:
        found = Dataset.open(tmp_path)
        assert len(found.list_indices()) == segments
        assert found.index_statistics("vec_idx")["num_unindexed_rows"] == 0
        assert found.verify().ok
        same(*both(tmp_path, near(values[40], nprobes=3, refine_factor=30), columns=["id"]))

    Dataset.write(tmp_path, table(vectors(rows=200, seed=1), first=ROWS), mode="append").optimize.optimize_indices(num_indices_to_merge=0)
    check(2)
    lance.dataset(tmp_path).delete("id % 5 = 1")
    Dataset.open(tmp_path).optimize.optimize_indices()
    check(1)
    Dataset.open(tmp_path).optimize.compact_files()
    assert len(Dataset.open(tmp_path).snapshot.manifest.fragments) == 1
    check(1)
    lance.write_dataset(table(vectors(rows=300, seed=2), first=ROWS + 200), tmp_path, mode="append")
    lance.dataset(tmp_path).optimize.optimize_indices()
    lance.dataset(tmp_path).optimize.compact_files()
    check(len(Dataset.open(tmp_path).list_indices()))
    Dataset.open(tmp_path).optimize.optimize_indices(retrain=True)
    check(1)


def test_rows_that_moved_are_found_before_the_index_is_written_anew(tmp_path: Path) -> None:
    values = vectors(rows=ROWS)
    made = Dataset.write(tmp_path, table(values), max_rows_per_file=200).create_index("vec", "IVF_PQ", num_partitions=2, **PQ)
    made.delete("id % 7 = 3").optimize.compact_files(defer_index_remap=True)
    same(*both(tmp_path, near(values[40], nprobes=2), columns=["id"]))
    assert Dataset.open(tmp_path).verify().ok
    Dataset.write(tmp_path, table(values[:50], first=ROWS), mode="append").optimize.optimize_indices()
    same(*both(tmp_path, near(values[40], nprobes=2), columns=["id"]))


@pytest.mark.parametrize(("kind", "few"), [("IVF_FLAT", 3), ("IVF_PQ", 300), ("IVF_SQ", 3)])
def test_an_index_of_few_rows_has_fewer_partitions(tmp_path: Path, kind: str, few: int) -> None:
    Dataset.write(tmp_path, table(vectors(rows=few))).create_index("vec", kind, num_partitions=16)
    same(*both(tmp_path, near(vectors(rows=few)[1], k=2, nprobes=1), columns=["id"]))
    (told,) = lance.dataset(tmp_path).stats.index_stats("vec_idx")["indices"]
    assert told["num_partitions"] == (1 if kind == "IVF_PQ" else 3)


@pytest.mark.parametrize("rows", [0, 100])
@pytest.mark.parametrize("writer", ["ours", "theirs"])
def test_an_index_without_rows_is_trained_when_there_are_enough(tmp_path: Path, rows: int, writer: str) -> None:
    empty = Dataset.write(tmp_path, table(vectors(rows=100)).slice(0, rows)).create_index("vec", "IVF_PQ", num_partitions=2, **PQ)
    assert empty.index_statistics("vec_idx")["num_indexed_fragments"] == 0
    assert empty.optimize.optimize_indices().list_indices() == empty.list_indices()
    assert lance.dataset(tmp_path).to_table(nearest=near(vectors()[1], k=1)).num_rows == min(rows, 1)
    filled = Dataset.write(tmp_path, table(vectors(rows=ROWS), first=rows), mode="append")
    if writer == "ours":
        filled.optimize.optimize_indices()
    else:
        lance.dataset(tmp_path).optimize.optimize_indices()
    assert Dataset.open(tmp_path).index_statistics("vec_idx")["num_unindexed_rows"] == 0
    same(*both(tmp_path, near(vectors(rows=ROWS)[40], nprobes=2), columns=["id"]))


def test_an_index_may_be_declared_first_replaced_and_dropped(tmp_path: Path) -> None:
    made = Dataset.write(tmp_path, table(vectors(rows=ROWS))).create_index("vec", "IVF_PQ", num_partitions=2, train=False, **PQ)
    assert made.index_statistics("vec_idx")["num_indexed_rows"] == 0
    with pytest.raises(InvalidOptionError, match="already has an index 'vec_idx'"):
        made.create_index("vec", "IVF_FLAT")
    made = made.create_index("vec", "IVF_FLAT", replace=True)
    assert [(i["name"], i["type"]) for i in made.list_indices()] == [("vec_idx", "IVF_FLAT")]
    assert made.drop_index("vec_idx").list_indices() == []


def test_vectors_in_structs_are_indexed(tmp_path: Path) -> None:
    inner = pa.StructArray.from_arrays([column(vectors(rows=ROWS))], ["vec"])
    made = Dataset.write(tmp_path, pa.table({"id": np.arange(ROWS), "s": inner})).create_index("s.vec", "IVF_SQ", num_partitions=2)
    found = made.scan(columns=["id", "_distance"], nearest={"column": "s.vec", "q": vectors(rows=ROWS)[40], "k": 1})
    assert "s.vec_idx (IVF_SQ)" in found.explain()
    assert found.to_table()["id"].to_pylist() == [40]


@pytest.mark.parametrize(("kind", "given"), [("IVF_FLAT", {}), ("IVF_PQ", PQ), ("IVF_HNSW_SQ", {})])
def test_lists_of_vectors_are_indexed_vector_by_vector(tmp_path: Path, kind: str, given: dict[str, Any]) -> None:
    values, offsets = vectors(rows=ROWS), [None if i == 6 else i for i in range(0, ROWS + 1, 3)]
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), column(values, null=40))
    rows = pa.table({"id": np.arange(len(lists)), "vec": lists})
    q = {"column": "vec", "q": values[42:45], "k": 5, "nprobes": 4, "refine_factor": 60}
    Dataset.write(tmp_path, rows.slice(0, 300), max_rows_per_file=150, enable_stable_row_ids=True)
    made = Dataset.open(tmp_path).create_index("vec", kind, metric="cosine", num_partitions=4, **given)
    assert made.verify().ok
    same(*both(tmp_path, q, columns=["id"]))
    Dataset.write(tmp_path, rows.slice(300), mode="append").delete("id = 4").optimize.optimize_indices()
    Dataset.open(tmp_path).optimize.compact_files()
    assert Dataset.open(tmp_path).verify().ok
    assert Dataset.open(tmp_path).index_statistics("vec_idx")["num_unindexed_rows"] == 0
    same(*both(tmp_path, q, columns=["id"]))
    lance.write_dataset(rows.slice(0, 50), tmp_path, mode="append")
    lance.dataset(tmp_path).optimize.optimize_indices()
    assert Dataset.open(tmp_path).verify().ok
    with pytest.raises(InvalidOptionError, match="has the metric cosine, not l2"):
        made.create_index("vec", kind, **given)


def test_given_centroids_and_codewords_are_used(tmp_path: Path) -> None:
    centroids, words = vectors(rows=3, seed=4), np.random.default_rng(5).normal(size=(4, 256, 2)).astype(np.float32)
    values = vectors(rows=ROWS)
    Dataset.write(tmp_path, table(values)).create_index("vec", "IVF_PQ", ivf_centroids=centroids, pq_codebook=words, **PQ)
    (told,) = lance.dataset(tmp_path).stats.index_stats("vec_idx")["indices"]
    np.testing.assert_array_equal(told["centroids"], centroids)
    lengths = ((values[:, None] - centroids) ** 2).sum(axis=2)
    assert [p["size"] for p in told["partitions"]] == np.bincount(lengths.argmin(axis=1), minlength=3).tolist()
    same(*both(tmp_path, near(values[40], nprobes=3), columns=["id"]))


@pytest.mark.parametrize(
    ("where", "kind", "given", "message"),
    [
        ("vec", "IVF_PQ", {"num_sub_vectors": 3}, "num_sub_vectors must divide the 8 dimensions"),
        ("vec", "IVF_PQ", {"num_bits": 6}, "num_bits must be 4 or 8"),
        ("vec", "IVF_PQ", {"num_bits": 4, "num_sub_vectors": 1}, "must be even"),
        ("vec", "IVF_FLAT", {"num_partitions": 0}, "num_partitions must be an integer from 1"),
        ("vec", "IVF_FLAT", {"num_sub_vectors": 2}, "no parameter 'num_sub_vectors'"),
        ("vec", "IVF_FLAT", {"metric": "l7"}, "unknown metric 'l7'"),
        ("vec", "IVF_FLAT", {"metric": "hamming"}, "hamming is for uint8"),
        ("vec", "IVF_FLAT", {"ivf_centroids": np.zeros((2, 3))}, "vectors of 8 dimensions"),
        ("vec", "IVF_FLAT", {"ivf_centroids": np.full((2, 8), np.nan)}, "finite"),
        ("vec", "IVF_FLAT", {"ivf_centroids": np.full((2, 8), 1e300)}, "finite numbers of float"),
        ("vec", "IVF_FLAT", {"ivf_centroids": [["a"] * 8]}, "finite numbers of float"),
        ("vec", "IVF_FLAT", {"ivf_centroids": [[1.0] * 8, [1.0]]}, "must be a matrix of numbers"),
        ("vec", "IVF_PQ", {"pq_codebook": np.full((4, 256, 2), 1e300), "num_sub_vectors": 4}, "finite numbers of float"),
        ("vec", "IVF_FLAT", {"ivf_centroids": np.zeros((2, 8)), "num_partitions": 3}, "has 2 vectors, but num_partitions is 3"),
        ("vec", "IVF_PQ", {"pq_codebook": np.zeros((3, 256, 2)), "num_sub_vectors": 4}, "must have the shape"),
        ("vec", "IVF_WRONG", {}, "unknown kind"),
        ("vec", "IVF_RQ", {"num_bits": 10}, "num_bits must be an integer from 1 to 9"),
        ("vec", "IVF_HNSW_SQ", {"m": 1}, "m must be an integer from 2"),
        ("vec", "IVF_FLAT", {"m": 20}, "no parameter 'm'"),
        ("id", "IVF_FLAT", {}, "cannot be built for column 'id'"),
        ("kind", "BTREE", {"metric": "l2"}, "no parameter 'metric'"),
    ],
)
def test_wrong_parameters_are_errors(tmp_path: Path, where: str, kind: str, given: dict[str, Any], message: str) -> None:
    made = Dataset.write(tmp_path, table(vectors()))
    with pytest.raises(InvalidOptionError, match=message):
        made.create_index(where, kind, **given)
    assert not (tmp_path / "_indices").exists()


def with_small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("MIN_SEGMENT_BYTES", "MAX_SEGMENT_BYTES"):
        monkeypatch.setattr(f"lance_spark.table.indexes.create.{limit}", 1)


@pytest.mark.parametrize(("kind", "given"), [("IVF_PQ", PQ), ("IVF_HNSW_SQ", {})])
def test_segments_of_large_tables_become_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, given: dict[str, Any]) -> None:
    values = vectors(rows=ROWS)
    whole = Dataset.write(tmp_path / "a", table(values)).create_index("vec", kind, num_partitions=4, **given)
    with_small_segments(monkeypatch)
    made = Dataset.write(tmp_path / "b", table(values), max_rows_per_file=100).create_index("vec", kind, num_partitions=4, **given)
    (told,) = lance.dataset(tmp_path / "b").stats.index_stats("vec_idx")["indices"]
    assert sum(p["size"] for p in told["partitions"]) == ROWS
    assert len(list((tmp_path / "b/_indices").iterdir())) == 1
    q = near(values[40], nprobes=2)
    same(*both(tmp_path / "b", q, columns=["id"]))
    assert made.scan(columns=["id"], nearest=q).to_table() == whole.scan(columns=["id"], nearest=q).to_table()


@pytest.mark.parametrize(
    ("kind", "metric", "given", "dtype"),
    [
        ("IVF_PQ", "cosine", PQ, "float32"),
        ("IVF_FLAT", "hamming", {}, "uint8"),
        pytest.param("IVF_HNSW_SQ", "dot", {}, "float16", marks=pytest.mark.slow),
    ],
)
def test_a_sample_that_outgrows_a_task_is_trained_with_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, metric: str, given: dict[str, Any], dtype: str
) -> None:
    values = vectors(dtype, 4000)
    made = Dataset.write(tmp_path / "a", table(values, null=9), max_rows_per_file=700)
    whole = made.create_index("vec", kind, metric=metric, num_partitions=12, **given).recall("vec", values[::50], nprobes=4)
    monkeypatch.setattr("lance_spark.table.indexes.training.MOST_SAMPLE_BYTES", 30_000)
    made = Dataset.write(tmp_path / "b", table(values, null=9), max_rows_per_file=700)
    made = made.create_index("vec", kind, metric=metric, num_partitions=12, **given)
    (told,) = lance.dataset(tmp_path / "b").stats.index_stats("vec_idx")["indices"]
    assert told["num_partitions"] == 12
    assert made.verify().ok
    assert made.recall("vec", values[::50], nprobes=4) > whole - 0.05
    same(*both(tmp_path / "b", near(values[40], nprobes=12), columns=["id"]))
    assert made.optimize.optimize_indices(retrain=True).verify().ok
    assert len(list((tmp_path / "b/_indices").iterdir())) == 2


@pytest.mark.parametrize("stage", ["train.train_model", "segment.train", "segment.rewrite"])
def test_a_failed_build_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    made = Dataset.write(tmp_path, table(vectors(rows=ROWS)), max_rows_per_file=500)
    with_small_segments(monkeypatch)
    written = f"lance_spark.index.vector.make.{stage}"
    module, name = written.rsplit(".", 1)
    real = getattr(__import__(module, fromlist=[name]), name)

    def fail(*given: Any) -> None:
        real(*given)
        raise LanceError("the disk is full")

    monkeypatch.setattr(written, fail)
    with pytest.raises(LanceError, match="the disk is full"):
        made.create_index("vec", "IVF_PQ", num_partitions=2, **PQ)
    assert Dataset.open(tmp_path).version == made.version
    assert not (tmp_path / "_indices").exists() or not list((tmp_path / "_indices").iterdir())


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        *(("IVF_FLAT", {}), ("IVF_PQ", PQ), ("IVF_PQ", {**PQ, "num_bits": 4, "metric": "dot"}), ("IVF_SQ", {"metric": "cosine"})),
        *(("IVF_RQ", {}), ("IVF_RQ", {"num_bits": 1}), ("IVF_HNSW_FLAT", {}), ("IVF_HNSW_SQ", {}), ("IVF_HNSW_PQ", PQ)),
    ],
)
def test_codes_of_other_vectors_are_found_by_verify(tmp_path: Path, kind: str, given: dict[str, Any]) -> None:
    made = Dataset.write(tmp_path, table(vectors(rows=ROWS))).create_index("vec", kind, num_partitions=2, **given)
    (whole,) = made.snapshot.manifest.indexes
    other = Dataset.write(tmp_path, table(vectors(rows=ROWS, seed=3)), mode="overwrite")
    (fragment,) = other.snapshot.manifest.fragments
    assert other.verify().ok
    wrong = replace(whole, fragment_bitmap=BitMap([fragment.id]).serialize(), dataset_version=other.version)
    broken = Dataset.commit(str(tmp_path), CreateIndex((wrong,), ()), other.version)
    assert [p.kind for p in broken.verify().problems] == ["corrupt"]


def test_many_centroids_are_trained_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    values = vectors(rows=4000)
    values[:500] = 1
    centroids, loss = kmeans(values, 300, "l2", 50, rng)
    assert centroids.shape == (300, DIMENSIONS)
    _, distances = nearest_of(values, centroids)
    assert distances.sum() == pytest.approx(loss, rel=0.05)
    monkeypatch.setattr("lance_spark.index.vector.make.kmeans._AT_ONCE", 300)
    assert loss < 1.1 * kmeans(values, 300, "l2", 50, rng)[1]


@pytest.mark.parametrize("dimensions", [4, 40])
@pytest.mark.parametrize("count", [1, 5, 64])
@pytest.mark.parametrize("dot", [False, True])
def test_the_nearest_centroid_is_found_far_from_zero_too(dimensions: int, count: int, dot: bool) -> None:
    rng = np.random.default_rng(0)
    shift = 0 if dot else 10_000
    values, centroids = (rng.integers(0, 9, (n, dimensions)).astype(np.float32) + shift for n in (200, count))
    apart = 1 - values @ centroids.T if dot else ((values[:, None] - centroids) ** 2).sum(axis=2)
    found, distances = nearest_of(values, centroids, dot)
    np.testing.assert_allclose(distances, apart.min(axis=1), rtol=1e-4, atol=0.05)
    np.testing.assert_allclose(apart[np.arange(200), found], apart.min(axis=1), rtol=1e-4, atol=0.05)


def test_rows_beyond_memory_are_gathered_in_files() -> None:
    rng = np.random.default_rng(0)
    members, rows, codes = rng.integers(0, 7, 1000), np.arange(1000, dtype=np.uint64), rng.integers(0, 255, (1000, 3)).astype(np.uint8)
    gathered = Gathered(8, run_bytes=1000)
    for start in range(0, 1000, 90):
        own = slice(start, start + 90)
        gathered.add(members[own], rows[own], {"code": codes[own]})
    found = list(gathered.partitions())
    assert [len(r) for r, _ in found] == np.bincount(members, minlength=8).tolist()
    for number, (own_rows, columns) in enumerate(found):
        np.testing.assert_array_equal(own_rows, rows[members == number])
        np.testing.assert_array_equal(columns["code"], codes[members == number])
