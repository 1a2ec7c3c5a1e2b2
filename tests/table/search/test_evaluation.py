"""Searches are measured against rows that are known to be right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError
from lance_spark.table.search.evaluation import measures


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    values = np.random.default_rng(5).normal(size=(500, 8)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 8)
    texts = [f"word{i % 7} other" for i in range(500)]
    path = tmp_path_factory.mktemp("evaluation") / "t"
    made = Dataset.write(path, pa.table({"id": np.arange(500) + 1000, "vec": column, "text": texts}))
    return made.create_index("vec", "IVF_PQ", num_partitions=2, num_sub_vectors=2).create_scalar_index("text", "INVERTED")


@pytest.mark.parametrize(
    ("found", "gains", "expected"),
    [
        ([1, 2, 3], {1: 1, 3: 1}, (1.0, 1.0, (1 + 1 / 2) / (1 + 1 / np.log2(3)))),
        ([5, 1], {1: 1, 2: 1}, (0.5, 0.5, (1 / np.log2(3)) / (1 + 1 / np.log2(3)))),
        ([5, 6], {1: 1}, (0.0, 0.0, 0.0)),
        ([], {1: 1}, (0.0, 0.0, 0.0)),
        ([2, 1], {1: 3.0, 2: 1.0}, (1.0, 1.0, (1 + 3 / np.log2(3)) / (3 + 1 / np.log2(3)))),
        ([1, 1, 2], {2: 1}, (1.0, 0.5, 1 / np.log2(3))),
        ([1], {}, (None, None, None)),
        ([1], {1: 0.0}, (None, None, None)),
    ],
)
def test_measures_are_those_of_information_retrieval(found: list[int], gains: dict[Any, float], expected: tuple[Any, ...]) -> None:
    told = measures(found, gains)
    assert (told["recall"], told["mrr"], told["ndcg"]) == pytest.approx(expected)


def test_vectors_are_compared_with_a_search_without_an_index(table: Dataset) -> None:
    queries = np.random.default_rng(6).normal(size=(12, 8))
    found = table.evaluate_search(queries, column="vec", k=5, nprobes=1)
    assert found.queries.num_rows == 12
    mean = found.summary["recall"][0].as_py()
    assert mean == pytest.approx(table.recall("vec", queries, k=5, nprobes=1))
    exact = table.evaluate_search(queries, column="vec", k=5, use_index=False).summary.to_pylist()[0]
    assert (exact["recall"], exact["mrr"], exact["ndcg"]) == (1, 1, 1)
    assert exact["latency_ms_p95"] >= exact["latency_ms_p50"] > 0


def test_texts_and_dictionaries_are_searched_for(table: Dataset) -> None:
    truth = [[1003], {1003: 2.0, 1010: 1.0}]
    queries = ["word3", {"full_text_query": "word3", "limit": 2, "filter": "id > 1003", "prefilter": True}]
    told = table.evaluate_search(queries, truth, key="id", k=3).queries
    assert told["recall"].to_pylist() == [1.0, 0.5]
    assert told["found"].to_pylist() == [3, 2]


@pytest.mark.parametrize(
    ("queries", "truth", "given", "told"),
    [
        ("word", None, {}, "queries must be a list"),
        (["word"], None, {}, "give the truth"),
        (["word"], [[1], [2]], {}, "2 lists of rows for 1 queries"),
        (["word"], ["abc"], {}, "a list of the keys"),
        (["word"], [[1]], {"nprobes": 3}, "no parameter 'nprobes'"),
        ([{"full_text_query": "word"}], [[1]], {"column": "text"}, "name their columns"),
    ],
)
def test_wrong_arguments_are_errors(table: Dataset, queries: Any, truth: Any, given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidOptionError, match=told):
        table.evaluate_search(queries, truth, **given)


def test_a_plot_shows_recall_against_time(table: Dataset, tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="an extra of users")
    matplotlib.use("Agg")
    axes = table.evaluate_search([np.zeros(8), np.ones(8)], column="vec").plot()
    assert axes.get_ylabel() == "recall"
    assert len(axes.collections[0].get_offsets()) == 2
