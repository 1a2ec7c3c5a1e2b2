"""A filter that comes after a search may have the columns that the search adds."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError
from tests.table.search.vectors import both, same, table, vectors

NEAR = {"column": "vec", "q": vectors()[40], "k": 10}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("conditions") / "t"
    lance.write_dataset(table(vectors()), path)
    return path


@pytest.mark.parametrize("condition", ["_distance < 5", "_distance < 7 AND id > 40", "_distance > 5 OR kind = 'k1'", "_distance IS NULL"])
def test_a_filter_after_the_search_may_have_the_distance(path: Path, condition: str) -> None:
    ours, theirs = both(path, NEAR, columns=["id"], filter=condition)
    same(ours, theirs)
    assert ours.num_rows < 10
    same(*both(path, NEAR, columns=["id"], filter=condition, limit=2, offset=1))


def test_a_filter_may_have_the_number_of_the_query(path: Path) -> None:
    near = {**NEAR, "q": vectors()[[40, 41]]}
    ours, theirs = both(path, near, columns=["id"], filter="_distance < 20 AND query_index = 1")
    same(ours, theirs)
    assert set(ours["query_index"].to_pylist()) == {1}


def test_explain_says_that_the_condition_comes_last(path: Path) -> None:
    text = Dataset.open(str(path)).scan(nearest=NEAR, filter="_distance < 5").explain()
    assert text.splitlines()[-1] == "  of the rows that are found: _distance < 5"


def test_a_filter_before_the_search_cannot_have_the_distance(path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="the prefilter '_distance < 5' has the column '_distance', which is known only after"):
        Dataset.open(str(path)).scan(nearest=NEAR, filter="_distance < 5", prefilter=True)


def test_a_column_of_the_table_has_precedence(tmp_path: Path) -> None:
    rows = table(vectors()).append_column("_distance", pa.array([float(i % 2) for i in range(300)]))
    dataset = Dataset.write(str(tmp_path / "t"), rows)
    found = dataset.scan(columns=["id"], nearest=NEAR, filter="_distance = 1", prefilter=True).to_table()
    assert found.num_rows == 10
    assert all(i % 2 for i in found["id"].to_pylist())


@pytest.mark.parametrize("limit", [None, 3])
def test_a_filter_may_have_the_score_of_a_text_or_of_a_hybrid_search(tmp_path: Path, limit: int | None) -> None:
    texts = pa.table({"id": range(6), "text": ["sky " * i + "sea" for i in range(6)]})
    dataset = lance.write_dataset(texts, tmp_path / "t")
    dataset.create_scalar_index("text", "INVERTED")
    ours = Dataset.open(str(tmp_path / "t"))
    for condition in ("_score > 0.35", "_score > 0.3 AND id > 3"):
        asked = {"columns": ["id"], "full_text_query": "sky", "filter": condition, "limit": limit}
        assert ours.scan(**asked).to_table() == dataset.to_table(**asked)  # type: ignore[arg-type]
    hybrid = {"routes": [{"full_text_query": "sky"}], "k": 5}
    best = ours.scan(columns=["id"], hybrid=hybrid).to_table()
    least = best["_relevance_score"][2].as_py()
    assert ours.scan(columns=["id"], hybrid=hybrid, filter=f"_relevance_score >= {least}").to_table() == best.slice(0, 3)


def test_a_fast_search_without_an_index_finds_nothing(path: Path) -> None:
    for more in ({}, {"use_index": False}):
        ours, theirs = both(path, {**NEAR, **more}, fast_search=True)
        assert (ours.num_rows, theirs.num_rows) == (0, 0)
    text = Dataset.open(str(path)).scan(nearest=NEAR, fast_search=True).explain()
    assert text.endswith("indexes: none\n  left out: 300 rows in 1 fragments")
