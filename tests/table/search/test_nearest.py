"""Wrong parameters of a search raise errors that name the parameter, what was given and what is expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError, LanceError, SchemaMismatchError
from tests.table.search.vectors import DIMENSIONS, column, table, vectors


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return Dataset.write(str(tmp_path / "t"), table(vectors()).append_column("bits", column(vectors("uint8"))))


Q = [0.5] * DIMENSIONS


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"search_effort": 1.5}, "search_effort must be a number from 0 to 1, not 1.5"),
        ({"search_effort": float("nan")}, "search_effort must be a number from 0 to 1, not nan"),
        ({"search_effort": True}, "search_effort must be a number from 0 to 1, not True"),
        ({"approx_mode": "best"}, "approx_mode must be one of fast, normal, accurate, not 'best'"),
        ({"foo": 1}, "nearest has no parameter 'foo'; its parameters are: column, q, metric"),
        ({"column": None}, "nearest needs the parameter 'column'"),
        ({"q": None}, "nearest needs the parameter 'q'"),
        ({"column": "id"}, "column 'id' of type int64 has no vectors"),
        ({"q": Q[1:]}, "q has 7 dimensions, but the vectors of column 'vec' have 8"),
        ({"q": Q * 2}, "q has 16 dimensions, but the vectors of column 'vec' have 8"),
        ({"q": []}, "q must be a vector of 8 numbers or several of them"),
        ({"q": [[Q]]}, "q must be a vector of 8 numbers or several of them"),
        ({"q": [Q, Q[1:]]}, "q must be a vector of numbers, or several of the same length"),
        ({"q": "abc"}, "q must be a vector of numbers for column 'vec', not str"),
        ({"q": [None] * DIMENSIONS}, "q must be a vector of numbers"),
        ({"q": [float("nan"), *Q[1:]]}, "q has NaN, or numbers that float cannot have"),
        ({"q": [1e60, *Q[1:]]}, "q has NaN, or numbers that float cannot have"),
        ({"column": "bits", "q": Q}, "q must have integers from 0 to 255"),
        ({"column": "bits", "q": [256] * DIMENSIONS}, "q must have integers from 0 to 255"),
        ({"q": [None, *Q[1:]]}, "q must be a vector of numbers for column 'vec', but has nulls"),
        ({"k": 0}, "k must be an integer of at least 1, not 0"),
        ({"k": -1}, "k must be an integer of at least 1, not -1"),
        ({"k": 2.5}, "k must be an integer of at least 1, not 2.5"),
        ({"k": 1 << 40}, "k must be an integer of at least 1 and at most 2147483647, not 1099511627776"),
        ({"nprobes": 0}, "nprobes must be an integer of at least 1, not 0"),
        ({"minimum_nprobes": 3, "maximum_nprobes": 2}, "minimum_nprobes must be at most maximum_nprobes, but 3 > 2"),
        ({"refine_factor": 0}, "refine_factor must be an integer of at least 1, not 0"),
        ({"ef": 0}, "ef must be an integer of at least 1, not 0"),
        ({"query_parallelism": -2}, "query_parallelism must be an integer of at least -1, not -2"),
        ({"metric": "ip"}, "metric must be one of l2, cosine, dot, hamming, not 'ip'"),
        ({"metric": "hamming"}, "the metric hamming is not for vectors of float32"),
        ({"column": "bits", "q": [1] * DIMENSIONS, "metric": "l2"}, "the metric l2 is not for vectors of uint8"),
        ({"distance_range": 3}, "distance_range must be two numbers or None"),
        ({"distance_range": (0.0, float("nan"))}, "distance_range must be two numbers or None"),
    ],
)
def test_wrong_parameters_are_named(dataset: Dataset, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        dataset.scan(nearest={"column": "vec", "q": Q, **parameters})


def test_unknown_columns_are_named(dataset: Dataset) -> None:
    with pytest.raises(SchemaMismatchError, match="nope"):
        dataset.scan(nearest={"column": "nope", "q": Q})


def test_wrong_types_are_named(dataset: Dataset) -> None:
    wrong: Any = [1]
    with pytest.raises(TypeError, match="nearest must be a mapping such as"):
        dataset.scan(nearest=wrong)
    with pytest.raises(TypeError, match="prefilter must be True or False"):
        dataset.scan(nearest={"column": "vec", "q": Q}, prefilter=wrong)


def test_a_column_called_as_the_distance_is_not_hidden(tmp_path: Path) -> None:
    rows = table(vectors()).append_column("_distance", pa.array(np.arange(300)))
    dataset = Dataset.write(str(tmp_path / "t"), rows)
    with pytest.raises(LanceError, match="a search adds the column '_distance', but the table has a column with this name"):
        dataset.scan(nearest={"column": "vec", "q": Q})
    assert dataset.scan(columns=["id"], nearest={"column": "vec", "q": Q}).to_table().column_names == ["id", "_distance"]


@pytest.mark.parametrize(
    "limits", [{}, {"limit": 3}, {"limit": 12}, {"limit": 40, "offset": 0}, {"limit": 1 << 40}, {"offset": 4}], ids=str
)
def test_without_k_as_many_rows_are_found_as_the_limit_says(dataset: Dataset, limits: Any) -> None:
    query = {"column": "vec", "q": Q}
    theirs = lance.dataset(dataset.uri).to_table(columns=["id"], nearest=query, **{"limit": None, **limits})["id"]
    assert dataset.scan(columns=["id"], nearest=query, **limits).to_table()["id"].to_pylist() == theirs.to_pylist()


def test_without_k_an_offset_leaves_out_rows_that_are_found_besides(dataset: Dataset) -> None:
    found = [dataset.scan(nearest={"column": "vec", "q": Q, **k}, limit=12, offset=5).to_table()["id"] for k in ({}, {"k": 17})]
    assert len(found[0]) == 12
    assert found[0] == found[1]
