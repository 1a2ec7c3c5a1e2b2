"""Dataset.scan(full_text_query=) finds the rows that pylance finds, with the same scores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.buffers.cache import Cache
from lance_spark.errors import CorruptFileError, InvalidOptionError, SchemaMismatchError, UnsupportedFeatureError
from tests.table.search.texts import same_rows, table

MATCHES: list[dict[str, Any]] = [
    {"query": "hello"},
    {"query": "Hellos THE world"},
    {"query": "hello hello world"},
    {"query": "hello world", "operator": "and"},
    {"query": "hello hello", "operator": "AND"},
    {"query": "hello zzz", "operator": "And"},
    {"query": "hello", "boost": 2.5},
    {"query": "the"},
    {"query": ""},
    {"query": "hallo wurld", "fuzziness": 1},
    {"query": "hallo wurld", "fuzziness": 2, "operator": "and"},
    {"query": "hello", "fuzziness": 1, "max_expansions": 1},
    {"query": "Hello hello", "fuzziness": 2, "max_expansions": 3},
    {"query": "hexlo", "fuzziness": 1, "prefix_length": 2},
    {"query": "hxllo", "fuzziness": 1, "prefix_length": 2},
]
PHRASES: list[dict[str, Any]] = [
    *({"query": text, "slop": slop} for text in ("hello world", "world hello", "quick brown") for slop in (0, 1, 3)),
    {"query": "quick the brown"},
    {"query": "quick the the fox"},
    {"query": "world world"},
    {"query": "foo bar hello", "slop": 1},
    {"query": "the"},
    {"query": "hello zzz"},
]
HELLO, WORLD, FOO = ({"match": {"query": word, "column": "a"}} for word in ("hello", "world", "foo"))
COMPOUND: list[dict[str, Any]] = [
    {"boost": {"positive": HELLO, "negative": WORLD, "negative_boost": 0.3}},
    {"boost": {"positive": HELLO, "negative": WORLD}},
    {"boolean": {"must": [HELLO], "should": [FOO]}},
    {"boolean": {"must": [HELLO, WORLD]}},
    {"boolean": {"should": [HELLO, FOO], "must_not": [WORLD]}},
    {"boolean": {"should": [{"phrase": {"query": "hello world", "column": "a"}}, {"boolean": {"must": [FOO]}}]}},
    {"multi_match": {"query": "hello", "columns": ["a", "b"]}},
    {"multi_match": {"query": "hello world", "columns": ["a", "b"], "boosts": [1.0, 3.0], "operator": "and"}},
    {"combined_fields": {"query": "hello world", "columns": ["a", "b"]}},
    {"combined_fields": {"query": "hello fox", "columns": ["a", "b"], "boosts": [2.0, 1.5], "operator": "and"}},
]


def indexed(path: Path, **parameters: Any) -> Any:
    ds = table(path)
    for column in ("a", "b"):
        ds.create_scalar_index(column, "INVERTED", **{"with_position": True, **parameters})
    return ds


@pytest.fixture(autouse=True)
def _uses_every_segment(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No segment is left out, which would give the same rows by scanning."""
    yield
    assert "is not used" not in caplog.text or "damaged" in request.node.name or "not_known" in request.node.name


FORMATS = [{"format_version": 1}, {"format_version": 2}, {"block_size": 256}, {"stem": False, "remove_stop_words": False}]


@pytest.mark.parametrize("parameters", FORMATS, ids=str)
def test_matches_and_phrases(tmp_path: Path, parameters: dict[str, Any]) -> None:
    ds = indexed(tmp_path / "t", **parameters)
    for given in MATCHES:
        same_rows(ds, {"match": {**given, "column": "a"}})
    for given in PHRASES:
        same_rows(ds, {"phrase": {**given, "column": "a"}})


@pytest.mark.parametrize("parameters", [{"base_tokenizer": "code", "split_identifiers": True}, {"base_tokenizer": "ngram"}], ids=str)
def test_one_of_the_tokens_at_a_position_is_enough(tmp_path: Path, parameters: dict[str, Any]) -> None:
    """A name and its first word, and the parts of a text that ngrams are; equal ones count once."""
    texts = ["getResponse", "get Response", "response get", "foo get response z getResponse", "get", "foo z get response", "responsens"]
    ds = lance.write_dataset(pa.table({"id": range(len(texts)), "a": texts}), tmp_path / "t")
    ds.create_scalar_index("a", "INVERTED", with_position=True, stem=False, remove_stop_words=False, **parameters)
    for words in ("getResponse", "foo getResponse", "getResponse z", "responsenseponse"):
        for limit in (None, 2):
            same_rows(ds, {"phrase": {"query": words, "column": "a"}}, limit=limit)
            for operator in ("or", "and"):
                same_rows(ds, {"match": {"query": words, "column": "a", "operator": operator}}, limit=limit)


def test_a_text_in_double_quotes_is_a_phrase(tmp_path: Path) -> None:
    ds = table(tmp_path / "t")
    ds.create_scalar_index("a", "INVERTED", with_position=True)
    found = Dataset.open(ds.uri)
    for text in ('"hello world"', '"hello"', '""', '"', '"hello world', ' "hello world"', "'hello world'", '"hello" "world"'):
        for query in (text, {"query": text, "columns": ["a"]}):
            theirs = ds.to_table(columns=["id"], full_text_query=query)["id"].to_pylist()
            assert sorted(found.scan(columns=["id"], full_text_query=query).to_table()["id"].to_pylist()) == sorted(theirs), query
    with pytest.raises(InvalidOptionError, match="in one column, not in a, b"):
        found.scan(full_text_query={"query": '"hello world"', "columns": ["a", "b"]})


def test_queries_that_combine_others(tmp_path: Path) -> None:
    ds = indexed(tmp_path / "t")
    for query in COMPOUND:
        assert same_rows(ds, query)


def test_rows_that_the_index_does_not_cover_are_searched_along(tmp_path: Path) -> None:
    table(tmp_path / "t", where=slice(0, 9))
    ds = table(tmp_path / "t")
    ds = lance.write_dataset(ds.to_table().slice(0, 9), tmp_path / "u")
    ds.create_scalar_index("a", "INVERTED", with_position=True)
    ds = table(tmp_path / "u", where=slice(9, None))
    ds = table(tmp_path / "u", where=slice(3, 7))
    for given in MATCHES:
        same_rows(ds, {"match": {**given, "column": "a"}})
    for given in PHRASES:
        same_rows(ds, {"phrase": {**given, "column": "a"}})
    assert len(same_rows(ds, HELLO)) > len(same_rows(ds, HELLO, fast_search=True)) > 0


def test_a_column_without_an_index_is_scanned(tmp_path: Path) -> None:
    ds = table(tmp_path / "t")
    for word in ("hello", "Hellos", "the", "running", "hello world"):
        same_rows(ds, {"match": {"query": word, "column": "a"}}, limit=20)
    assert same_rows(ds, {"phrase": {"query": "hello world", "column": "a", "slop": 1}}, limit=20)


def test_segments_partitions_deleted_and_moved_rows(tmp_path: Path) -> None:
    ds = indexed(tmp_path / "t")
    ds = table(tmp_path / "t", where=slice(2, 9))
    ds.optimize.optimize_indices(num_indices_to_merge=0)
    ds.delete("id = 7")
    for query in ({"match": {**given, "column": "a"}} for given in MATCHES):
        same_rows(ds, query)
    assert 7 not in same_rows(ds, HELLO)
    ds.optimize.compact_files()
    for query in COMPOUND:
        same_rows(ds, query)
    Dataset.open(ds.uri).update({"a": "'hello there'"}, "id = 5")
    ds = ds.checkout_latest() or ds
    assert 5 in same_rows(ds, HELLO)


def test_lists_of_texts_are_searched_as_one_text(tmp_path: Path) -> None:
    texts = pa.array(
        [["hello world", "foo"], ["foo hello"], None, [], ["world", None, "foo foo"], ["hello", "world"]], pa.list_(pa.string())
    )
    ds = lance.write_dataset(pa.table({"id": range(6), "a": texts}), tmp_path / "t")
    same_rows(ds, HELLO, limit=9)
    ds.create_scalar_index("a", "INVERTED", with_position=True)
    for _ in range(2):
        for text in ("hello world", "world foo", "hello foo"):
            assert same_rows(ds, {"match": {"query": text, "column": "a"}})
            same_rows(ds, {"phrase": {"query": text, "column": "a"}})
        ds = lance.write_dataset(pa.table({"id": range(6, 12), "a": texts}), tmp_path / "t", mode="append")


def test_json_documents_are_searched_by_path_type_and_value(tmp_path: Path) -> None:
    documents = [{"a": "Hello cats", "n": 1.0}, {"a": {"b": ["hello", 2]}}, {"n": 1e20, "a": True}, {"n": 1}]
    rows = pa.table({"id": range(4), "a": pa.array([json.dumps(d) for d in documents], pa.json_())})
    ds = lance.write_dataset(rows, tmp_path / "t")
    ds.create_scalar_index("a", "INVERTED")
    for _ in range(2):
        for text in ("a,str,hello", "a.b,str,Hello", "a.b,number,2", "n,number,1.0", "n,number,1", "a,bool,true", "a,str,cats;n,number,1"):
            same_rows(ds, {"match": {"query": text, "column": "a"}})
        ds = lance.write_dataset(rows, tmp_path / "t", mode="append")


def test_filters_before_and_after_the_search(tmp_path: Path) -> None:
    ds = indexed(tmp_path / "t")
    assert same_rows(ds, HELLO, filter="id < 7") == same_rows(ds, HELLO, filter="id < 7", prefilter=True)
    after = Dataset.open(ds.uri).scan(columns=["id"], full_text_query=HELLO, filter="id < 7", limit=2).to_table()
    before = Dataset.open(ds.uri).scan(columns=["id"], full_text_query=HELLO, filter="id < 7", limit=2, prefilter=True).to_table()
    assert (len(after), len(before)) == (1, 2), "row 7 is the best one"


def test_limit_and_offset_count_the_best_rows(tmp_path: Path) -> None:
    found = Dataset.open(indexed(tmp_path / "t").uri)
    whole = found.scan(columns=["id"], full_text_query=HELLO).to_table()
    part = found.scan(columns=["id"], full_text_query=HELLO, limit=2, offset=1).to_table()
    assert part.equals(whole.slice(1, 2))
    assert found.scan(full_text_query=HELLO, limit=0).count_rows() == 0


def test_words_without_a_column_are_searched_for_in_all_indexed_columns(tmp_path: Path) -> None:
    ds = indexed(tmp_path / "t")
    ours = Dataset.open(ds.uri)
    theirs = ds.to_table(columns=["id", "_score"], full_text_query="hello")
    for query in ("hello", {"match": {"query": "hello"}}, {"query": "hello"}, {"query": "hello", "columns": ["a", "b"]}):
        found = ours.scan(columns=["id", "_score"], full_text_query=query).to_table()
        assert sorted(found["id"].to_pylist()) == sorted(theirs["id"].to_pylist())
        np.testing.assert_allclose(np.sort(found["_score"]), np.sort(theirs["_score"]), rtol=1e-5)
    clauses = {"boolean": {"must": ["hello"], "should": ["foo"], "must_not": ["lance"]}}
    assert ours.scan(full_text_query=clauses).count_rows()


def test_the_score_comes_where_it_is_requested(tmp_path: Path) -> None:
    found = Dataset.open(indexed(tmp_path / "t").uri)
    assert found.scan(full_text_query=HELLO).schema.names == ["id", "a", "b", "_score"]
    assert found.scan(columns=["_score", "id"], full_text_query=HELLO).to_table().column_names == ["_score", "id"]
    assert found.scan(columns=["id"], full_text_query=HELLO, with_row_id=True).to_table().column_names == ["id", "_score", "_rowid"]


def test_automatic_fuzziness_depends_on_the_length_of_words(tmp_path: Path) -> None:
    found = Dataset.open(indexed(tmp_path / "t").uri)
    query = {"match": {"query": "hallo", "column": "a", "fuzziness": "auto"}}
    assert found.scan(full_text_query=query).count_rows() == found.scan(full_text_query=HELLO).count_rows()


WRONG: list[tuple[Any, str]] = [
    (5, "text or a dictionary"),
    ({}, "text or a dictionary"),
    ({"mtach": {"query": "x"}}, "mtach"),
    ({"match": {"query": "x", "fuzzy": 1}}, "fuzzy"),
    ({"match": {}}, "query"),
    ({"match": {"query": "x", "operator": "xor"}}, "operator"),
    ({"match": {"query": "x", "boost": -1}}, "boost"),
    ({"match": {"query": "x", "fuzziness": -1}}, "fuzziness"),
    ({"boolean": {"must_not": ["x"]}}, "must or should"),
    ({"boost": {"positive": "x"}}, "negative"),
    ({"multi_match": {"query": "x", "columns": ["a", "b"], "boosts": [1]}}, "boosts"),
    ({"phrase": {"query": "hello world"}}, "must name its column"),
    ({"match": {"query": "x", "column": "id"}}, "column of texts"),
    ({"boolean": {"must": ["x"] * 2000}}, "1024"),
]


@pytest.mark.parametrize(("query", "named"), WRONG, ids=lambda value: str(value)[:40])
def test_a_wrong_query_is_refused_with_what_is_wrong(tmp_path: Path, query: Any, named: str) -> None:
    found = Dataset.open(indexed(tmp_path / "t").uri)
    with pytest.raises(InvalidOptionError, match=named):
        found.scan(full_text_query=query).to_table()


def test_a_search_needs_a_column_that_exists_and_positions_for_phrases(tmp_path: Path) -> None:
    ds = table(tmp_path / "t")
    found = Dataset.open(ds.uri)
    with pytest.raises(InvalidOptionError, match="no column has a full-text index"):
        found.scan(full_text_query="hello").to_table()
    with pytest.raises(SchemaMismatchError, match="zz"):
        found.scan(full_text_query={"match": {"query": "x", "column": "zz"}})
    ds.create_scalar_index("a", "INVERTED")
    with pytest.raises(InvalidOptionError, match="with_position"):
        Dataset.open(ds.uri).scan(full_text_query={"phrase": {"query": "hello world"}}).to_table()


def test_a_damaged_segment_is_left_out_and_its_rows_are_scanned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ds = indexed(tmp_path / "t", stem=False, remove_stop_words=False, ascii_folding=False)
    for file in (tmp_path / "t" / "_indices").glob("*/part_*_invert.lance"):
        file.write_bytes(file.read_bytes()[:100])
    found = Dataset.open(ds.uri).scan(columns=["id"], full_text_query=HELLO).to_table()["id"].to_pylist()
    assert sorted(found) == [0, 1, 2, 3, 7]
    assert "is not used" in caplog.text


@pytest.mark.matrix
@pytest.mark.parametrize("own", [{}, {"custom_stop_words": ["foo"]}, {"remove_stop_words": False}], ids=str)
@pytest.mark.parametrize("file", ["*", "metadata.lance", "part_0_invert.lance", "part_0_tokens.lance", "part_0_docs.lance"])
@pytest.mark.parametrize("damage", ["lost", "cut", "garbage"])
def test_the_rows_of_a_damaged_segment_are_split_as_its_parameters_say(
    tmp_path: Path, own: dict[str, Any], file: str, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parameters come from its metadata; the manifest does not tell stop words. A fuzzy search needs the index."""
    Dataset.write(tmp_path, pa.table({"id": [1, 2, 3], "a": ["Running foo", "He runs the", "The rest"]}))
    Dataset.open(tmp_path).create_scalar_index("a", "INVERTED", with_position=True, **own)
    words = ("run", "the", "foo", '"runs the"')

    def rows(query: Any, **options: Any) -> list[int]:
        return sorted(Dataset.open(tmp_path).scan(["id"], full_text_query=query, **options).to_table()["id"].to_pylist())

    def satisfying() -> int:
        return Dataset.open(tmp_path).count_rows("lance_match(a, 'foo the')")

    whole, count = [rows(word) for word in words], satisfying()
    folder = tmp_path / "_indices"
    folder.rename(tmp_path / "before")
    for path in (tmp_path / "before").glob("*/*"):
        data, hit = path.read_bytes(), path.match(file)
        if hit and damage == "lost":
            continue
        target = folder / path.relative_to(tmp_path / "before")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data if not hit else data[: len(data) // 2] if damage == "cut" else bytes(len(data)))
    monkeypatch.setattr("lance_spark.index.files._CACHE", Cache(1 << 20))
    if file in ("*", "metadata.lance") and own != {"remove_stop_words": False}:
        for ask in (
            lambda: rows("run"),
            lambda: rows("run", fast_search=True),
            satisfying,
            Dataset.open(tmp_path).scan(full_text_query="x").explain,
        ):
            with pytest.raises(CorruptFileError, match=r"metadata\.lance"):
                ask()
        return
    assert [rows(word) for word in words] == [rows(word, fast_search=True) for word in words] == whole
    assert satisfying() == count
    with pytest.raises(CorruptFileError, match="similar words are searched for in an index only"):
        rows({"match": {"query": "rnu", "column": "a", "fuzziness": 2}})


@pytest.mark.parametrize("stable", [False, True])
def test_a_tokenizer_that_is_not_known_is_an_error_and_the_index_stays_as_it_is(
    tmp_path: Path, stable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jieba" / "own").mkdir(parents=True)
    (tmp_path / "jieba" / "own" / "dict.txt").write_text("我来 10 v\n", "utf-8")
    monkeypatch.setenv("LANCE_LANGUAGE_MODEL_HOME", str(tmp_path))
    rows = pa.table({"id": range(6), "a": ["Running late", "He runs"] * 3})
    ds = lance.write_dataset(rows, tmp_path / "t", max_rows_per_file=2, enable_stable_row_ids=stable)
    ds.create_scalar_index("a", "INVERTED", base_tokenizer="jieba/own")

    def refused() -> None:
        table = Dataset.open(tmp_path / "t")
        for ask in (
            table.scan(full_text_query="run").to_table,
            table.scan(full_text_query={"match": {"query": "rnu", "column": "a", "fuzziness": 2}}).count_rows,
            lambda: table.count_rows("lance_match(a, 'run')"),
        ):
            with pytest.raises(UnsupportedFeatureError, match=r"a_idx.*'jieba/own'"):
                ask()

    refused()
    Dataset.write(tmp_path / "t", rows.slice(0, 2), mode="append")
    refused()
    table = Dataset.open(tmp_path / "t")
    with pytest.raises(UnsupportedFeatureError, match="jieba/own"):
        table.create_scalar_index("a", "INVERTED", base_tokenizer="jieba/own", replace=True)
    with pytest.raises(UnsupportedFeatureError, match="jieba/own"):
        table.optimize.optimize_indices(index_names=["a_idx"])
    table.optimize.optimize_indices()
    table.optimize.compact_files()
    refused()
    found = lance.dataset(tmp_path / "t").to_table(columns=["id"], full_text_query="run")
    assert sorted(found["id"].to_pylist()) == [0, 0, 1, 1, 2, 3, 4, 5]


def test_an_index_without_rows_tells_how_texts_are_split(tmp_path: Path) -> None:
    ds = table(tmp_path / "t")
    ds.create_scalar_index("a", "INVERTED", train=False)
    for word in ("HELLO", "running", "the"):
        same_rows(ds, {"match": {"query": word, "column": "a"}}, limit=20)


def test_a_word_of_combined_fields_that_is_asked_twice_counts_once(tmp_path: Path) -> None:
    ds = indexed(tmp_path / "t")
    for words in ("hello hello", "hello Hellos world hello"):
        assert same_rows(ds, {"combined_fields": {"query": words, "columns": ["a", "b"]}})
    with pytest.raises(InvalidOptionError, match="must differ, but 'a'"):
        Dataset.open(ds.uri).scan(full_text_query={"combined_fields": {"query": "hello", "columns": ["a", "a"]}})


def test_the_plan_names_the_query_the_index_and_what_is_scanned(tmp_path: Path) -> None:
    indexed(tmp_path / "t")
    ds = table(tmp_path / "t")
    text = Dataset.open(ds.uri).scan(full_text_query=HELLO, filter="id > 3", limit=3).explain()
    assert "a_idx (INVERTED)" in text
    assert "after the search" in text
    assert "in 1 fragments" in text


ITEM_DOORS: dict[str, dict[str, Any]] = {
    "a search": {"full_text_query": "w1"},
    "a search of a column": {"full_text_query": {"match": {"query": "w1", "column": "words"}}},
    "a phrase": {"full_text_query": {"phrase": {"query": "w1 w2", "column": "words"}}},
    "a condition": {"filter": "lance_match(words, 'w1')"},
    "one of two routes": {"hybrid": {"routes": [{"full_text_query": {"match": {"query": "w1", "column": "words"}}}]}},
}


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table whose index has each item of a list as a document of its own."""
    path = str(tmp_path_factory.mktemp("items") / "t")
    rows = pa.table({"id": range(3), "words": [["w1 w2", "w3"], ["w1"], []]})
    index = {"with_position": True, "document_granularity": lance.query.DocumentGranularity.LIST_ELEMENT}
    lance.write_dataset(rows, path).create_scalar_index("words", "INVERTED", **index)
    return path


@pytest.mark.parametrize("door", ITEM_DOORS)
def test_an_index_of_items_of_lists_is_refused_by_name(items: str, door: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"index 'words_list_element_idx' of column 'words' .*\(document_granularity\)"):
        Dataset.open(items).scan(["id"], **ITEM_DOORS[door]).to_table()


def test_rows_beside_an_index_of_items_are_read_as_usual(items: str) -> None:
    found = Dataset.open(items).scan(["id"], filter="array_contains(words, 'w1')").to_table()
    assert found["id"].to_pylist() == [1]


def test_the_number_of_an_item_is_no_column(items: str) -> None:
    with pytest.raises(SchemaMismatchError, match="_doc_index"):
        Dataset.open(items).scan(["id", "_doc_index"]).to_table()
