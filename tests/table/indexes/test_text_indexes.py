"""Full-text indexes that are made and kept by this package: pylance finds the same rows with the same scores, and goes on keeping them."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.query import FullTextOperator, MatchQuery, PhraseQuery

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.index.text.build import inversion
from tests.sample import others_slow

WORDS = ["running", "the", "Häuser", "naïve", "x_y", "日本", "fooBar12", "a", "", "😀", *(f"word{i}" for i in range(40))]


def texts(rows: int, seed: int = 1) -> list[str | None]:
    """Random texts of words of which few are frequent; some are empty or null."""
    draw = random.Random(seed)
    weights = [1 / (i + 1) for i in range(len(WORDS))]
    return [None if draw.random() < 0.05 else " ".join(draw.choices(WORDS, weights, k=draw.randrange(12))) for _ in range(rows)]


def tables(path: Path, rows: pa.Table, **options: Any) -> tuple[Any, Any]:
    """The same table twice: for pylance's index and for ours."""
    return tuple(lance.write_dataset(rows, path / name, **options) for name in ("theirs", "ours"))


def queries(*, with_position: bool) -> list[Any]:
    asked = [
        MatchQuery("running word3", "text"),
        MatchQuery("Häuser naïve word7 nothing", "text"),
        MatchQuery("naïve word1", "text", operator=FullTextOperator.AND),
        MatchQuery("fooBar12", "text"),
        MatchQuery("wrd12", "text", fuzziness=1),
    ]
    return asked + ([PhraseQuery("running naïve", "text"), PhraseQuery("naïve running", "text", slop=2)] if with_position else [])


def found(path: Path, query: Any) -> dict[int, float]:
    """The rows that pylance finds, and their scores."""
    rows = lance.dataset(path).to_table(columns=["id", "_score"], full_text_query=query)
    return dict(sorted(zip(rows["id"].to_pylist(), rows["_score"].to_pylist())))


def same(path: Path, query: Any) -> list[int]:
    """The rows that pylance finds with our index, which are those of its own, with the same scores."""
    theirs, ours = (found(path / name, query) for name in ("theirs", "ours"))
    assert list(ours) == list(theirs), query
    np.testing.assert_allclose(list(ours.values()), list(theirs.values()), rtol=1e-5)
    return list(theirs)


def check(path: Path, *, with_position: bool = False) -> None:
    """pylance finds the same with our index as with its own, and so do we; the table is valid."""
    for query in queries(with_position=with_position):
        assert same(path, query)
    ours = Dataset.open(path / "ours").scan(columns=["id", "_score"], full_text_query="running word3").to_table()
    assert sorted(ours["id"].to_pylist()) == list(found(path / "theirs", "running word3"))
    lance.dataset(path / "ours").validate()
    Dataset.open(path / "ours").verify()


def index_bytes(path: Path) -> int:
    return sum(file.size for index in Dataset.open(path).snapshot.manifest.indexes for file in index.files)


PARAMETERS: list[dict[str, Any]] = [
    {},
    {"with_position": True},
    {"stem": False, "remove_stop_words": False, "lower_case": False, "ascii_folding": False, "max_token_length": None},
    {"base_tokenizer": "whitespace", "language": "German", "with_position": True},
    {"base_tokenizer": "ngram", "min_ngram_length": 2, "max_ngram_length": 4},
    {"base_tokenizer": "code", "split_identifiers": True, "with_position": True},
    {"custom_stop_words": ["word1", "a"], "block_size": 256, "with_position": True},
]


@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
def test_pylance_finds_the_same_with_our_index_as_with_its_own(tmp_path: Path, parameters: dict[str, Any]) -> None:
    tables(tmp_path, pa.table({"id": range(3000), "text": texts(3000)}), max_rows_per_file=1300)
    lance.dataset(tmp_path / "theirs").create_scalar_index("text", "INVERTED", **parameters)
    made = Dataset.open(tmp_path / "ours").create_scalar_index("text", "fts", **parameters)
    check(tmp_path, with_position=parameters.get("with_position", False))
    theirs = Dataset.open(tmp_path / "theirs").snapshot.manifest.indexes[0]
    ours = made.snapshot.manifest.indexes[0]
    assert (ours.name, ours.details_type, ours.index_version) == (theirs.name, theirs.details_type, theirs.index_version)
    statistics = [lance.dataset(tmp_path / name).stats.index_stats("text_idx")["indices"][0] for name in ("theirs", "ours")]
    assert statistics[0] == statistics[1]
    assert index_bytes(tmp_path / "ours") < 1.1 * index_bytes(tmp_path / "theirs") + 1000


@pytest.mark.parametrize(
    ("stable", "with_position"),
    others_slow([(False, False), (False, True), (True, False), (True, True)], [(False, False), (True, True)]),
)
def test_an_index_is_extended_moved_and_merged_by_either_writer(tmp_path: Path, stable: bool, with_position: bool) -> None:
    rows = pa.table({"id": range(4000), "text": texts(4000)})
    tables(tmp_path, rows.slice(0, 2000), max_rows_per_file=700, enable_stable_row_ids=stable)
    lance.dataset(tmp_path / "theirs").create_scalar_index("text", "INVERTED", with_position=with_position)
    made = Dataset.open(tmp_path / "ours").create_scalar_index("text", "INVERTED", with_position=with_position)

    def both(change: Any) -> None:
        for name in ("theirs", "ours"):
            change(lance.dataset(tmp_path / name))

    def append(start: int) -> None:
        for name in ("theirs", "ours"):
            lance.write_dataset(rows.slice(start, 500), tmp_path / name, mode="append")

    append(2000)
    check(tmp_path, with_position=with_position)
    both(lambda ds: ds.optimize.optimize_indices(num_indices_to_merge=0) if "theirs" in ds.uri else None)
    made = Dataset.open(tmp_path / "ours").optimize.optimize_indices(num_indices_to_merge=0)
    assert len(made.list_indices()) == 2
    check(tmp_path, with_position=with_position)
    append(2500)
    both(lambda ds: ds.optimize.optimize_indices() if "theirs" in ds.uri else None)
    made = Dataset.open(tmp_path / "ours").optimize.optimize_indices()
    assert len(made.list_indices()) == 1
    assert made.index_statistics("text_idx")["num_unindexed_rows"] == 0
    check(tmp_path, with_position=with_position)
    append(3000)
    both(lambda ds: ds.optimize.optimize_indices())  # pylance extends ours
    check(tmp_path, with_position=with_position)
    append(3500)
    lance.dataset(tmp_path / "theirs").optimize.optimize_indices()
    Dataset.open(tmp_path / "ours").optimize.optimize_indices()  # and we extend what it wrote
    check(tmp_path, with_position=with_position)


@pytest.mark.parametrize(("stable", "deferred"), [(False, False), (True, False), (False, True)])
def test_an_index_follows_the_rows_that_a_compaction_moves(tmp_path: Path, stable: bool, deferred: bool) -> None:
    rows = pa.table({"id": range(2000), "text": texts(2000)})
    made = Dataset.write(tmp_path, rows, max_rows_per_file=300, enable_stable_row_ids=stable)
    made.create_scalar_index("text", "INVERTED", with_position=True)
    lance.dataset(tmp_path).delete("id % 3 = 1")
    asked = queries(with_position=True)
    before = [list(found(tmp_path, query)) for query in asked]
    done = Dataset.open(tmp_path)
    done.optimize.compact_files(defer_index_remap=deferred)
    done = Dataset.open(tmp_path)
    assert len(done.snapshot.manifest.fragments) == 1
    assert done.index_statistics("text_idx")["num_unindexed_rows"] == 0
    assert [list(found(tmp_path, query)) for query in asked] == before
    ours = Dataset.open(tmp_path).scan(columns=["id"], full_text_query="running word3").to_table()
    assert sorted(ours["id"].to_pylist()) == before[0]
    Dataset.open(tmp_path).verify()


def test_many_rows_become_several_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inversion, "MOST_OCCURRENCES", 2000)
    monkeypatch.setattr("lance_spark.index.text.build.inverted._BATCH_ROWS", 100)
    tables(tmp_path, pa.table({"id": range(3000), "text": texts(3000)}))
    lance.dataset(tmp_path / "theirs").create_scalar_index("text", "INVERTED", with_position=True)
    made = Dataset.open(tmp_path / "ours").create_scalar_index("text", "INVERTED", with_position=True)
    assert sum("docs" in file.path for file in made.snapshot.manifest.indexes[0].files) > 3
    check(tmp_path, with_position=True)


def test_lists_of_texts_json_documents_and_members_of_structs_are_indexed(tmp_path: Path) -> None:
    words = texts(900)
    rows = pa.table(
        {
            "id": range(300),
            "list": pa.array(
                [None if i % 7 == 0 else [words[3 * i], None, words[3 * i + 1]] for i in range(300)], pa.large_list(pa.large_string())
            ),
            "json": pa.array([f'{{"a": {{"b": {i % 9}, "c": ["running cats", null, true]}}}}' for i in range(300)], pa.json_()),
            "s": [{"text": words[i]} for i in range(300)],
        }
    )
    tables(tmp_path, rows)
    for column in ("list", "json", "s.text"):
        lance.dataset(tmp_path / "theirs").create_scalar_index(column, "INVERTED", with_position=True)
        Dataset.open(tmp_path / "ours").create_scalar_index(column, "INVERTED", with_position=True)
    asked = [
        MatchQuery("running word1", "list"),
        PhraseQuery("running naïve", "list", slop=3),
        MatchQuery("a.b,number,7;a.c,str,cats", "json"),
        MatchQuery("running word1", "s.text"),
    ]
    for query in asked:
        assert same(tmp_path, query)


def test_an_index_of_no_rows_is_filled_later(tmp_path: Path) -> None:
    rows = pa.table({"id": range(500), "text": texts(500)})
    tables(tmp_path, rows)
    for name in ("theirs", "ours"):
        Dataset.open(tmp_path / name).create_scalar_index("text", "INVERTED", train=False, with_position=True)
    lance.dataset(tmp_path / "theirs").optimize.optimize_indices()
    Dataset.open(tmp_path / "ours").optimize.optimize_indices()
    check(tmp_path, with_position=True)
    empty = Dataset.write(tmp_path / "empty", rows.slice(0, 0)).create_scalar_index("text", "INVERTED")
    assert empty.scan(full_text_query="running").to_table().num_rows == 0
    assert lance.dataset(tmp_path / "empty").to_table(full_text_query="running").num_rows == 0


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"foo": 1}, "no parameter 'foo'"),
        ({"base_tokenizer": "nope"}, "nope"),
        ({"base_tokenizer": "jieba/own"}, "a dictionary of its own"),
        ({"language": "Klingon"}, "Klingon"),
        ({"language": "english"}, "english"),
        ({"block_size": 100}, "block_size"),
        ({"lower_case": "x"}, "lower_case"),
        ({"stem": None}, "stem"),
        ({"max_token_length": -1}, "max_token_length"),
        ({"min_ngram_length": 4, "base_tokenizer": "ngram"}, "min_ngram_length"),
        ({"min_ngram_length": 0, "base_tokenizer": "ngram"}, "min_ngram_length"),
        ({"custom_stop_words": "abc"}, "custom_stop_words"),
        ({"split_identifiers": True}, "base_tokenizer='code'"),
        ({"lance_tokenizer": "json"}, "lance_tokenizer"),
    ],
)
def test_wrong_parameters_are_refused(tmp_path: Path, parameters: dict[str, Any], named: str) -> None:
    made = Dataset.write(tmp_path, pa.table({"text": ["a b"], "n": [1], "b": [b"x"]}))
    with pytest.raises((InvalidOptionError, UnsupportedFeatureError), match=named):
        made.create_scalar_index("text", "INVERTED", **parameters)
    assert not Dataset.open(tmp_path).list_indices()
    assert not (tmp_path / "_indices").exists() or not list((tmp_path / "_indices").iterdir())


@pytest.mark.parametrize("column", ["n", "b"])
def test_columns_without_texts_are_refused(tmp_path: Path, column: str) -> None:
    made = Dataset.write(tmp_path, pa.table({"n": [1], "b": pa.array([b"x"], pa.large_binary())}))
    with pytest.raises(InvalidOptionError, match="cannot be built"):
        made.create_scalar_index(column, "INVERTED")


def test_an_index_is_replaced_and_dropped(tmp_path: Path) -> None:
    made = Dataset.write(tmp_path, pa.table({"text": ["a running cat"]})).create_scalar_index("text", "INVERTED")
    made = made.create_scalar_index("text", "INVERTED", with_position=True)
    assert [i["type"] for i in made.list_indices()] == ["Inverted"]
    assert made.scan(full_text_query={"phrase": {"query": "running cat"}}).count_rows() == 1
    assert made.drop_index("text_idx").list_indices() == []
    shutil.rmtree(tmp_path)
