"""A hybrid search puts the rows of several searches into one order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import FunctionFailedError, InvalidOptionError, SchemaMismatchError

WORDS = {"match": {"query": "sky", "column": "text"}}
NEAREST = {"column": "v", "q": [0.0, 0.0]}


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Rows 0 to 5, at the distances 0, 1, 4, 9 and so on from the origin; texts of 5, 3 and 1 have the word, from the best to the worst."""
    vectors = pa.array([[float(i), 0.0] for i in range(6)], pa.list_(pa.float32(), 2))
    texts = ["sea", "the sky far away from sea", "sea", "sky and sea", "sea", "sky"]
    return Dataset.write(str(tmp_path / "t"), pa.table({"id": range(6), "v": vectors, "text": texts}))


def found(dataset: Dataset, hybrid: Mapping[str, Any], **arguments: Any) -> dict[int, float]:
    """The relevance of the rows by their ids, in order."""
    rows = dataset.scan(columns=["id"], hybrid=hybrid, **arguments).to_table()
    return dict(zip(rows["id"].to_pylist(), rows["_relevance_score"].to_pylist()))


def test_reciprocal_ranks_are_added(dataset: Dataset) -> None:
    both = {"routes": [{"nearest": NEAREST, "k": 2}, {"full_text_query": WORDS, "k": 3}], "k": 4}
    expected = {1: 1 / 61 + 1 / 62, 0: 1 / 60, 5: 1 / 60, 3: 1 / 61}
    assert found(dataset, both) == pytest.approx(expected, rel=1e-6)
    assert list(found(dataset, both)) == [1, 0, 5, 3]
    assert found(dataset, {**both, "rrf_k": 1})[1] == pytest.approx(1 / 2 + 1 / 3, rel=1e-6)


def test_routes_have_weights(dataset: Dataset) -> None:
    routes = [{"nearest": {**NEAREST, "k": 2}, "weight": 0}, {"full_text_query": WORDS, "k": 1, "weight": 2}]
    assert found(dataset, {"routes": routes, "fuse": "mrr", "k": 1}) == {5: 1.0}
    routes[0]["weight"] = 2
    assert found(dataset, {"routes": routes, "fuse": "mrr"}) == {0: 0.5, 5: 0.5, 1: 0.25}


def test_distances_and_scores_are_scaled(dataset: Dataset) -> None:
    routes = [{"nearest": NEAREST, "k": 3}]
    assert found(dataset, {"routes": routes, "fuse": "weighted_score"}) == {0: 1.0, 1: 0.75, 2: 0.0}


def test_rows_show_what_each_kind_of_search_says(dataset: Dataset) -> None:
    routes = [{"nearest": NEAREST, "k": 2}, {"full_text_query": WORDS, "k": 1}]
    rows = dataset.scan(columns=["id"], hybrid={"routes": routes}).to_table().to_pylist()
    assert [(row["id"], row["_distance"], row["_score"] is None) for row in rows] == [(0, 0.0, True), (5, None, False), (1, 1.0, True)]


def test_the_filter_is_that_of_each_route(dataset: Dataset) -> None:
    hybrid = {"routes": [{"nearest": NEAREST, "k": 2}, {"full_text_query": WORDS, "k": 1}]}
    assert list(found(dataset, hybrid, filter="id BETWEEN 1 AND 4")) == [1]
    assert list(found(dataset, hybrid, filter="id BETWEEN 1 AND 4", prefilter=True)) == [1, 3, 2]
    assert list(found(dataset, hybrid, limit=1, offset=1)) == [5]


@pytest.mark.parametrize(
    ("hybrid", "message"),
    [
        ({"routes": []}, "'routes' of hybrid must be a list of 1 to 64 searches"),
        ({"routes": [{"nearest": NEAREST, "full_text_query": "sky"}]}, "either nearest or full_text_query"),
        ({"routes": [{"nearest": {**NEAREST, "q": [NEAREST["q"]] * 2}}]}, "searches for one vector"),
        ({"routes": [{"nearest": NEAREST, "wieght": 2}]}, "no parameter 'wieght'; did you mean 'weight'"),
        ({"routes": [{"nearest": NEAREST, "weight": float("nan")}]}, "the weight of a route must be a number of at least 0, not nan"),
        ({"routes": [{"nearest": NEAREST, "weight": 0}]}, "must have a weight greater than 0"),
        ({"routes": [{"nearest": NEAREST}], "k": 0}, "k must be an integer of at least 1, not 0"),
        ({"routes": [{"nearest": {**NEAREST, "k": 0}}]}, "k must be an integer of at least 1, not 0"),
        ({"routes": [{"nearest": NEAREST}], "fuse": "sum"}, "one of rrf, weighted_score, mrr, or a function, not 'sum'"),
        ({"routes": [{"nearest": NEAREST}], "rrf_k": 0}, "rrf_k must be greater than 0"),
        ({"routes": [{"nearest": NEAREST}], "rrf": 1}, "hybrid has no parameter 'rrf'; did you mean 'rrf_k'"),
    ],
)
def test_wrong_parameters_are_named(dataset: Dataset, hybrid: Mapping[str, Any], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        dataset.scan(hybrid=hybrid)


def test_an_empty_table_has_no_rows(dataset: Dataset) -> None:
    hybrid = {"routes": [{"nearest": NEAREST}, {"full_text_query": WORDS}]}
    assert found(dataset.delete("true"), hybrid) == {}


def test_a_function_of_the_user_orders_the_rows(dataset: Dataset) -> None:
    routes = [{"nearest": NEAREST, "k": 2}, {"full_text_query": WORDS, "k": 3}]
    seen: list[list[str]] = []

    def shortest_text(rows: pa.RecordBatch) -> pa.Array:
        seen.append(rows.schema.names)
        return pa.array([-len(text) for text in rows["text"].to_pylist()])

    hybrid = {"routes": routes, "fuse": shortest_text, "columns": ["text"], "k": 3}
    assert found(dataset, hybrid) == {0: -3.0, 5: -3.0, 3: -11.0}
    assert seen == [["text", "_distance", "_score"]]
    assert "fuse shortest_text" in dataset.scan(hybrid=hybrid).explain()


@pytest.mark.parametrize("told", [[1.0], "abc", [None] * 3, None, [[1.0]] * 3, ["a"] * 3])
def test_a_function_that_returns_no_numbers_is_an_error(dataset: Dataset, told: Any) -> None:
    hybrid = {"routes": [{"nearest": NEAREST, "k": 3}], "fuse": lambda rows: told}
    with pytest.raises(FunctionFailedError, match="must return a number for each"):
        dataset.scan(hybrid=hybrid).to_table()


def test_columns_are_for_a_function(dataset: Dataset) -> None:
    routes = [{"nearest": NEAREST}]
    with pytest.raises(InvalidOptionError, match="names the columns that a function"):
        dataset.scan(hybrid={"routes": routes, "columns": ["text"]})
    with pytest.raises(SchemaMismatchError, match="nothing"):
        dataset.scan(hybrid={"routes": routes, "columns": ["nothing"], "fuse": lambda rows: [0] * len(rows)})
