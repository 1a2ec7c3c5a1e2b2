"""A search finds enough of the nearest rows without any parameter, or as many as it is asked to find."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError
from lance_spark.index.vector.measured import Measured, Setting, Shape, measured_in, with_measured

KINDS = ("IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_FLAT", "IVF_HNSW_PQ", "IVF_HNSW_SQ")
ROWS, DIMENSIONS, ASKED = 3000, 32, 40
MANY = 400
"""So many queries tell a recall to a hundredth."""


def clustered(rng: np.random.Generator, count: int) -> np.ndarray:
    """Vectors around 60 centers."""
    centers = rng.normal(size=(60, DIMENSIONS))
    return centers[rng.integers(0, 60, count)] + rng.normal(scale=0.4, size=(count, DIMENSIONS))


def uniform(rng: np.random.Generator, count: int) -> np.ndarray:
    """Vectors of any numbers."""
    return rng.random((count, DIMENSIONS))


def digits(rng: np.random.Generator, count: int) -> np.ndarray:
    """Pictures of digits."""
    return rng.permutation(importlib.import_module("sklearn.datasets").load_digits().data)[:count]


def rows(vectors: np.ndarray, first: int = 0) -> pa.Table:
    """A table of vectors with the column `id`."""
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.astype(np.float32).ravel()), vectors.shape[1])
    return pa.table({"id": np.arange(first, first + len(vectors)), "vec": column})


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("data", [clustered, uniform, digits])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
def test_each_kind_finds_enough_without_parameters(tmp_path: Path, kind: str, data: Any, metric: str) -> None:
    check_finds_enough(tmp_path, kind, data, metric)


@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_RQ", "IVF_HNSW_SQ"])
def test_a_search_without_parameters_finds_enough(tmp_path: Path, kind: str) -> None:
    check_finds_enough(tmp_path, kind, uniform, "l2")


def check_finds_enough(path: Path, kind: str, data: Any, metric: str) -> None:
    """Queries that are not in the table find 95% of their nearest rows, and not fewer than was measured."""
    vectors = data(np.random.default_rng(3), ROWS + MANY).astype(np.float32)
    partitions: dict[str, Any] = {} if "HNSW" in kind else {"num_partitions": 8}
    table = Dataset.write(path, rows(vectors[MANY:])).create_index("vec", kind, metric=metric, **partitions)
    recall = table.recall("vec", vectors[:MANY])
    assert recall >= 0.95
    measured = table.index_statistics("vec_idx")["expected_recall"]
    assert measured is None or recall > measured - 0.02
    explained = table.scan(nearest={"column": "vec", "q": vectors[0]}).explain()
    assert "is expected, as it was measured" in explained or "is out of reach of the index, which is not searched" in explained


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    return clustered(np.random.default_rng(4), ROWS + ASKED).astype(np.float32)


@pytest.fixture(scope="module")
def table(vectors: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A table with an index of few bytes a vector, which loses many of the nearest rows."""
    path = tmp_path_factory.mktemp("recall")
    return Dataset.write(path, rows(vectors[ASKED:])).create_index("vec", "IVF_PQ", num_partitions=8, num_sub_vectors=2)


@pytest.mark.parametrize("target", [0.5, 0.8, 0.9, 0.98])
def test_a_target_is_met(table: Dataset, vectors: np.ndarray, target: float) -> None:
    near = {"column": "vec", "q": vectors[0], "k": 10, "recall_target": target}
    assert f"for {target}" in table.scan(nearest=near).explain()
    assert table.recall("vec", vectors[:ASKED], recall_target=target) >= target


def test_a_lower_target_reads_less(table: Dataset, vectors: np.ndarray) -> None:
    low, high = (table.recall("vec", vectors[:ASKED], recall_target=target) for target in (0.3, 0.98))
    assert low < high


@pytest.mark.parametrize("near", [{"k": 10, "recall_target": 1.0}, {"k": 500, "recall_target": 0.9}])
def test_a_target_out_of_reach_is_answered_without_the_index(vectors: np.ndarray, tmp_path: Path, near: dict[str, Any]) -> None:
    noise = uniform(np.random.default_rng(1), 600)
    coarse = Dataset.write(tmp_path, rows(noise)).create_index("vec", "IVF_PQ", num_sub_vectors=1)
    search = {"column": "vec", "q": noise[7], **near}
    told = coarse.scan(nearest=search).explain()
    if near["k"] == 500:
        assert "out of reach" in told
        assert "compared with every vector: 600 rows" in told
    found = coarse.scan(["id"], nearest=search).to_table()["id"].to_pylist()
    exact = coarse.scan(["id"], nearest={"column": "vec", "q": noise[7], "k": near["k"], "use_index": False}).to_table()
    assert found == exact["id"].to_pylist()


@pytest.mark.parametrize("share", [50, 7, 2])
def test_rows_that_a_filter_leaves_are_found(table: Dataset, vectors: np.ndarray, share: int) -> None:
    """Where few are left, exactly: they are compared with the query."""
    near = {"column": "vec", "q": vectors[1], "k": 10}
    condition = f"id % {100 // share} = 0" if share < 50 else "id % 2 = 0"
    found = table.scan(["id"], filter=condition, prefilter=True, nearest=near).to_table()["id"].to_pylist()
    exact = table.scan(["id"], filter=condition, prefilter=True, nearest={**near, "use_index": False}).to_table()["id"].to_pylist()
    assert found == exact if share < 10 else len(set(found) & set(exact)) >= 8


@pytest.mark.parametrize("given", [{"nprobes": 2}, {"refine_factor": 3}, {"ef": 20}, {"search_effort": 0.7}, {"approx_mode": "fast"}])
def test_a_target_chooses_the_parameters_itself(table: Dataset, vectors: np.ndarray, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError, match=f"recall_target chooses .*, but {next(iter(given))} is given, too"):
        table.scan(nearest={"column": "vec", "q": vectors[0], "recall_target": 0.9, **given})


@pytest.mark.parametrize("target", [-0.1, 1.5, "high", True])
def test_a_target_is_a_share(table: Dataset, vectors: np.ndarray, target: Any) -> None:
    with pytest.raises(InvalidOptionError, match="recall_target must be a number from 0 to 1"):
        table.scan(nearest={"column": "vec", "q": vectors[0], "recall_target": target})


def test_given_parameters_mean_what_they_mean_in_pylance(table: Dataset, vectors: np.ndarray) -> None:
    near = {"column": "vec", "q": vectors[2], "k": 10, "nprobes": 3}
    ours, theirs = (of.to_table(columns=["id"], nearest=near) for of in (table, lance.dataset(table.uri)))
    assert ours["id"].to_pylist() == theirs["id"].to_pylist()


def test_pylance_reads_appends_and_optimizes_what_tells_its_recall(tmp_path: Path, vectors: np.ndarray) -> None:
    Dataset.write(tmp_path, rows(vectors[:2000])).create_index("vec", "IVF_PQ", num_partitions=4, num_sub_vectors=4)
    lance.write_dataset(rows(vectors[2000:3000], 2000), tmp_path, mode="append")
    other = lance.dataset(tmp_path)
    other.optimize.optimize_indices()
    near = {"column": "vec", "q": vectors[-1], "k": 10, "refine_factor": 20}
    assert lance.dataset(tmp_path).to_table(nearest=near).num_rows == 10
    table = Dataset.open(tmp_path)
    assert "recall:" not in table.scan(nearest=near | {"refine_factor": None}).explain()  # pylance trained the index anew
    table.optimize.optimize_indices()
    (segment,) = Dataset.open(tmp_path).snapshot.manifest.indexes
    told = measured_in(segment.details)
    assert told is not None
    assert told.rows == 3000
    assert Dataset.open(tmp_path).recall("vec", vectors[-ASKED:]) >= 0.95
    assert lance.dataset(tmp_path).to_table(nearest=near).num_rows == 10


def test_optimizing_measures_an_index_of_pylance_once(tmp_path: Path, vectors: np.ndarray) -> None:
    lance.write_dataset(rows(vectors[:2000]), tmp_path).create_index("vec", "IVF_PQ", num_partitions=4, num_sub_vectors=2)
    table = Dataset.open(tmp_path)
    before = table.recall("vec", vectors[-ASKED:])
    uuid = table.list_indices()[0]["uuid"]
    table.optimize.optimize_indices()
    measured = Dataset.open(tmp_path)
    assert measured.list_indices()[0]["uuid"] == uuid
    assert before < 0.8  # pylance trains at random
    assert measured.recall("vec", vectors[-ASKED:]) > 0.9
    measured.optimize.optimize_indices()
    assert Dataset.open(tmp_path).version == measured.version


def test_vectors_far_from_the_centroids_are_reported(tmp_path: Path, vectors: np.ndarray, caplog: pytest.LogCaptureFixture) -> None:
    table = Dataset.write(tmp_path, rows(vectors[:1000])).create_index("vec", "IVF_PQ", num_partitions=4, num_sub_vectors=4)
    assert table.index_statistics("vec_idx")["drift"] == 1
    table = Dataset.write(tmp_path, rows(vectors[:2000] + 5, 1000), mode="append")
    table.optimize.optimize_indices()
    assert "train the index 'vec_idx' again" in caplog.text
    drifted = Dataset.open(tmp_path).index_statistics("vec_idx")
    assert drifted["drift"] > 1.25
    table.optimize.optimize_indices(retrain=True)
    trained = Dataset.open(tmp_path).index_statistics("vec_idx")
    assert trained["drift"] == 1
    assert trained["expected_recall"] >= 0.95


OTHER_NUMBER = '{"rows":"a","partitions":1,"queries":1,"shape":[1,1],"trained":[1,1],"levels":{}}'


@pytest.mark.parametrize("hint", ["", "[]", "{}", '{"rows":1}', "nonsense", OTHER_NUMBER])
def test_details_that_tell_nonsense_tell_nothing(hint: str) -> None:
    from lance_spark._proto import index_pb2

    message = index_pb2.VectorIndexDetails()
    message.hints["lance_spark.recall"] = hint
    assert measured_in(message.SerializeToString()) is None


def test_details_tell_what_was_measured() -> None:
    shape = Shape(2.5, 1.25)
    measured = Measured(7, 2, 3, shape, shape, {10: (Setting(1, 0, 0, 0.5), Setting(2, 0, 5, 0.75))})
    assert measured_in(with_measured(b"", measured)) == measured
    assert with_measured(with_measured(b"", measured), None) == b""
