"""With a limit, a full-text search finds the same best rows as without, though it does not score all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.index.text.best import best
from lance_spark.index.text.bm25 import Statistics
from lance_spark.index.text.largest import BLOCK, largest
from lance_spark.index.text.memory_part import MemoryPart
from lance_spark.index.text.postings import Postings

ROWS = 6000
QUERIES: list[dict[str, Any]] = [
    {"match": {"query": "w0", "column": "t"}},
    {"match": {"query": "w900", "column": "t"}},
    {"match": {"query": "w0 w3 w40", "column": "t"}},
    {"match": {"query": "w2 w2 w1 nowhere", "column": "t"}},
    {"match": {"query": " ".join(f"w{i}" for i in range(0, 60, 3)), "column": "t", "boost": 0.5}},
    {"match": {"query": "w0 w3 w40", "column": "t", "operator": "and"}},
    {"match": {"query": "w0 w0 w1", "column": "t", "operator": "and"}},
    {"match": {"query": "w12", "column": "t", "fuzziness": 1, "max_expansions": 30}},
    {"phrase": {"query": "w0 w1", "column": "t"}},
    {"phrase": {"query": "w0 w0", "column": "t"}},
    {"phrase": {"query": "w1 w0 w2", "column": "t"}},
    {"phrase": {"query": "w1 w0 w0", "column": "t", "slop": 2}},
    {"multi_match": {"query": "w1 w5", "columns": ["t", "u"], "boosts": [1.0, 2.0]}},
]


def texts(rng: np.random.Generator, count: int, length: tuple[int, int]) -> pa.Array:
    """Texts of words whose frequencies are those of a language: the word number i is as frequent as 1 / i."""
    words = np.minimum((1000 ** rng.random((count, length[1])) - 1).astype(int), 999)
    sizes = rng.integers(*length, count, endpoint=True)
    return pa.array([" ".join(f"w{w}" for w in row[:size]) for row, size in zip(words, sizes)])


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A table with two segments, deleted rows, and rows outside of its indexes. The texts of `u` have one length: many scores are equal."""
    path, rng = tmp_path_factory.mktemp("best") / "t", np.random.default_rng(3)
    for at in (0, ROWS, 2 * ROWS):
        rows = pa.table({"id": range(at, at + ROWS), "t": texts(rng, ROWS, (1, 30)), "u": texts(rng, ROWS, (4, 4))})
        ds = lance.write_dataset(rows.slice(0, ROWS // (8 if at > ROWS else 1)), path, mode="append" if at else "create")
        if not at:
            for column in ("t", "u"):
                ds.create_scalar_index(column, "INVERTED", with_position=True, stem=False, remove_stop_words=False)
        elif at == ROWS:
            ds.optimize.optimize_indices(num_indices_to_merge=0)
    ds.delete("id % 3 = 1")
    return Dataset.open(path)


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_a_limit_leaves_the_best_of_all_rows(found: Dataset, query: dict[str, Any]) -> None:
    whole = found.scan(["id", "_score"], full_text_query=query).to_table()
    assert len(whole) > 3
    for limit, offset in ((1, 0), (10, 0), (10, 25), (300, 7)):
        part = found.scan(["id", "_score"], full_text_query=query, limit=limit, offset=offset).to_table()
        assert part.equals(whole.slice(offset, limit))


def test_rows_whose_scores_are_equal_are_the_first_ones_of_the_table(found: Dataset) -> None:
    query = {"match": {"query": "w3", "column": "u"}}
    scan = found.scan(["id", "_score"], full_text_query=query, fast_search=True)
    assert len(set(scan.to_table()["_score"].to_pylist())) < len(scan.to_table()) / 20
    for limit in (1, 5, 50):
        part = found.scan(["id", "_score"], full_text_query=query, fast_search=True, limit=limit).to_table()
        assert part.equals(scan.to_table().slice(0, limit))


class Falsified(MemoryPart):
    """Documents whose frequencies in all blocks but the first are not those that the bounds of the blocks were made of."""

    def postings(self, number: int) -> Postings:
        found = super().postings(number)
        return Postings(found.documents, np.where(np.arange(len(found.documents)) < BLOCK, found.frequencies, 1 << 20).astype(np.uint32))

    def largest(self, number: int, average: np.float32) -> np.ndarray:
        found = super().postings(number)
        return largest(found.documents, found.frequencies, self.lengths, average)


@pytest.mark.parametrize("words", [["word"], ["word", "other"], ["other", "word", "third"]])
@pytest.mark.parametrize("needs_all", [False, True])
def test_blocks_that_cannot_have_the_best_documents_are_not_looked_at(needs_all: bool, words: list[str]) -> None:
    times = [5 if at < BLOCK else 1 for at in range(20 * BLOCK)]
    documents = [(words * count, [*range(len(words) * count)]) for count in times]
    part = Falsified([(np.arange(len(documents), dtype=np.uint64), documents)], frozenset(words))
    statistics = Statistics(10 * len(documents), 10 * len(documents), dict.fromkeys(words, len(documents)))
    found = best(part, words, needs_all, statistics, 10)
    assert found is not None
    assert found.documents.tolist() == [*range(10)]


def test_deleted_rows_do_not_count_to_the_limit_of_a_table_with_stable_row_ids(tmp_path: Path) -> None:
    """pylance takes the best rows first and leaves out those that were deleted and compacted away, so it finds too few."""
    rows = pa.table({"id": range(40), "t": ["word word word"] * 20 + ["word and many others"] * 20})
    ds = lance.write_dataset(rows, tmp_path / "t", enable_stable_row_ids=True)
    ds.create_scalar_index("t", "INVERTED")
    ds.delete("id < 20 AND id != 7")
    ds.optimize.compact_files()
    ours = Dataset.open(ds.uri).scan(["id"], full_text_query="word", limit=5).to_table()
    assert ours["id"].to_pylist()[0] == 7
    assert len(ours) == 5
