"""A filter never changes the score of a row: statistics are those of all rows that are searched, never of those that are left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lance_spark import Dataset
from tests.table.search.texts import asked_of_pylance, table

MATCH, OTHER = ({"match": {"query": text, "column": "a"}} for text in ("hello world", "hello foo"))
QUERIES: dict[str, dict[str, Any]] = {
    "match": MATCH,
    "and": {"match": {"query": "hello world", "column": "a", "operator": "and"}},
    "phrase": {"phrase": {"query": "hello world", "column": "a", "slop": 1}},
    "boolean": {"boolean": {"must": [OTHER], "should": [MATCH]}},
    "multi_match": {"multi_match": {"query": "hello world", "columns": ["a", "b"]}},
    "combined_fields": {"combined_fields": {"query": "hello world", "columns": ["a", "b"]}},
    "boost": {"boost": {"positive": OTHER, "negative": MATCH}},
    "fuzzy": {"match": {"query": "hallo wurld", "column": "a", "fuzziness": 1}},
}
FILTERS: dict[str, dict[str, Any]] = {
    "after": {"filter": "id < 4", "limit": 99},
    "before": {"filter": "id < 4", "limit": 99, "prefilter": True},
    "no limit": {"filter": "id < 4"},
    "none left": {"filter": "id > 99", "prefilter": True},
}
STATES = ("no index", "whole", "part", "part with deletions", "whole with deletions", "blocks of 256")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A table in each state."""
    folder, found = tmp_path_factory.mktemp("states"), {}
    for state in STATES:
        path = folder / state.replace(" ", "_")
        ds = table(path)
        if state != "no index":
            for column in ("a", "b"):
                block = 256 if "256" in state else 128
                ds.create_scalar_index(column, "INVERTED", with_position=True, block_size=block)
        if "part" in state:
            ds = table(path, where=slice(0, 8))
        if "deletions" in state:
            ds.delete("id IN (1, 3)")
        found[state] = ds
    return found


def scores(ds: Any, query: dict[str, Any], **options: Any) -> list[tuple[int, float]]:
    """The ids and scores of the rows that are found, in order."""
    rows = Dataset.open(ds.uri).scan(["id", "_score"], full_text_query=query, **options).to_table()
    return sorted(zip(rows["id"].to_pylist(), rows["_score"].to_pylist()))


@pytest.mark.matrix
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("kind", QUERIES)
def test_a_filter_leaves_the_scores_as_they_are(tables: dict[str, Any], kind: str, state: str) -> None:
    ds, query = tables[state], QUERIES[kind]
    if state == "no index" and kind == "combined_fields":
        return  # it is refused: see test_text_search
    every = scores(ds, query)
    assert every or (kind == "fuzzy" and state == "no index"), "similar words need an index"
    for name, options in FILTERS.items():
        expected = [(row, score) for row, score in every if row < 4 and name != "none left"]
        assert scores(ds, query, **options) == expected, name
    theirs = ds.to_table(columns=["id", "_score"], full_text_query=asked_of_pylance(query), limit=99)
    expected = sorted(zip(theirs["id"].to_pylist(), theirs["_score"].to_pylist()))
    assert [row for row, _ in every] == [row for row, _ in expected]
    np.testing.assert_allclose([score for _, score in every], [score for _, score in expected], rtol=1e-5)


def test_deleted_rows_count_until_the_index_is_written_again(tmp_path: Path) -> None:
    """As in pylance: those that an index covers do, others do not."""
    plain, indexed = table(tmp_path / "plain"), table(tmp_path / "indexed")
    indexed.create_scalar_index("a", "INVERTED")
    before = {ds.uri: dict(scores(ds, MATCH)) for ds in (plain, indexed)}
    for ds in (plain, indexed):
        ds.delete("id IN (7, 10, 11)")
    assert dict(scores(indexed, MATCH))[0] == before[indexed.uri][0]
    assert dict(scores(plain, MATCH))[0] != before[plain.uri][0]
    Dataset.open(indexed.uri).optimize.compact_files()
    assert dict(scores(indexed, MATCH))[0] != before[indexed.uri][0]


def test_lengths_of_blocks_of_256_are_rounded_as_in_pylance(tmp_path: Path) -> None:
    import lance
    import pyarrow as pa

    texts = [" ".join(["word"] * (1 + i % 3) + ["other"] * i) for i in range(300)]
    ds = lance.write_dataset(pa.table({"id": range(300), "a": texts, "b": texts}), tmp_path / "t")
    for column in ("a", "b"):
        ds.create_scalar_index(column, "INVERTED", block_size=256, stem=False, remove_stop_words=False)
    both = {"query": "word", "columns": ["a", "b"]}
    for query in ({"match": {"query": "word", "column": "a"}}, {"multi_match": both}, {"combined_fields": both}):
        for limit in (10, 300):
            theirs = ds.to_table(columns=["id", "_score"], full_text_query=asked_of_pylance(query), limit=limit)
            ours = Dataset.open(ds.uri).scan(["id", "_score"], full_text_query=query, limit=limit).to_table()
            np.testing.assert_allclose(ours["_score"], theirs["_score"], rtol=1e-5, err_msg=str(query))
