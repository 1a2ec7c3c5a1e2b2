"""Full-text queries that are huge, deep, wrong or strange: they take bounded time and memory, or are refused with our errors."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError, SchemaMismatchError

WORDS = 70_000
SECONDS = 20
"""The slowest of these queries takes about one second on an idle machine."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A table with an index of many words, each in one row, and of one that is in all."""
    texts = [" ".join(["common", *(f"x{at:05d}" for at in range(start, start + 70))]) for start in range(0, WORDS, 70)]
    ds = lance.write_dataset(pa.table({"id": range(len(texts)), "t": texts}), tmp_path_factory.mktemp("hostile") / "t")
    ds.create_scalar_index("t", "INVERTED", with_position=True)
    made = Dataset.open(ds.uri)
    for query in ({"match": {"query": "common x", "fuzziness": 1}}, {"phrase": {"query": "common x00000"}}):
        for limit in (None, 5):  # compiles the kernels
            made.scan(full_text_query=query, limit=limit).to_table()
    return made


def count(found: Dataset, query: object, **options: Any) -> int:
    """The rows that are found; it does not take long."""
    start = time.process_time()
    rows = found.scan(["id"], full_text_query=query, **options).to_table().num_rows  # type: ignore[arg-type]
    assert time.process_time() - start < SECONDS
    return int(rows)


def test_ten_thousand_words_are_searched_for(found: Dataset) -> None:
    words = " ".join(f"x{at:05d}" for at in range(0, WORDS, 7))
    assert count(found, words) == WORDS // 70
    assert count(found, words, limit=10) == 10
    assert count(found, {"match": {"query": words, "column": "t", "operator": "and"}}) == 0
    assert count(found, {"phrase": {"query": words, "column": "t"}}, limit=10) == 0


def test_a_fuzzy_word_may_stand_for_many_tokens_but_not_for_more_than_fit_in_memory(found: Dataset) -> None:
    fuzzy: dict[str, Any] = {"query": "x00000", "column": "t", "fuzziness": 5, "max_expansions": 20_000}
    assert count(found, {"match": fuzzy}) > 100
    with pytest.raises(InvalidOptionError, match="max_expansions"):
        count(found, {"match": {**fuzzy, "max_expansions": (1 << 31) - 1}})


def test_a_fuzzy_word_may_be_long(found: Dataset) -> None:
    assert count(found, {"match": {"query": "y" * 100_000, "column": "t", "fuzziness": 2}}) == 0
    assert count(found, {"match": {"query": "y" * 39, "column": "t", "fuzziness": 32}}) == 0


def test_a_fuzzy_word_is_not_compared_with_tokens_if_both_are_huge(tmp_path: Path) -> None:
    ds = lance.write_dataset(pa.table({"id": [0, 1], "t": ["y" * 60_000, "z"]}), tmp_path / "t")
    ds.create_scalar_index("t", "INVERTED", base_tokenizer="raw", max_token_length=None, stem=False)
    with pytest.raises(InvalidOptionError, match="1024"):
        count(Dataset.open(ds.uri), {"match": {"query": "y" * 59_999, "column": "t", "fuzziness": 1}})


def deep(depth: int) -> dict[str, Any]:
    """A boolean query of so many levels."""
    query: dict[str, Any] = {"match": {"query": "common", "column": "t"}}
    for _ in range(depth):
        query = {"boolean": {"must": [query]}}
    return query


def test_deep_queries_are_searched_or_refused(found: Dataset) -> None:
    assert count(found, deep(30)) == WORDS // 70
    for depth in (33, 10_000, 200_000):
        with pytest.raises(InvalidOptionError, match="nested deeper than 32"):
            count(found, deep(depth))
    with pytest.raises(InvalidOptionError, match="nested deeper"):
        count(found, {"match": {"query": deep(10_000), "column": "t"}})


def test_a_query_whose_parts_are_the_same_object_many_times_is_refused(found: Dataset) -> None:
    query: dict[str, Any] = {"match": {"query": "common", "column": "t"}}
    for _ in range(30):
        query = {"boost": {"positive": query, "negative": query}}
    with pytest.raises(InvalidOptionError, match="more than 65536 values"):
        count(found, query)
    cycle: dict[str, Any] = {"boolean": {"must": []}}
    cycle["boolean"]["must"].append(cycle)
    with pytest.raises(InvalidOptionError, match="nested deeper"):
        count(found, cycle)


def test_a_huge_slop_is_as_any_distance(found: Dataset) -> None:
    phrase = {"query": "common x00069", "column": "t"}
    assert count(found, {"phrase": {**phrase, "slop": (1 << 31) - 1}}) == 1
    assert count(found, {"phrase": {**phrase, "slop": 68}}) == 0
    assert count(found, {"phrase": {**phrase, "slop": 69}}) == 1


@pytest.mark.parametrize(
    "text", ["", " ", "\0", "\u0130" * 50, "\u200d\ufe0f", "e\u0301" * 1000, "\U0010ffff", "\ufeff", "\u202ereversed", "all\x00all", "𝔞𝔩𝔩"]
)
def test_strange_texts_are_searched_for_as_others(found: Dataset, text: str) -> None:
    for kind in ({"match": {"query": text, "column": "t", "fuzziness": 1}}, {"phrase": {"query": text, "column": "t"}}):
        assert count(found, kind, limit=10) <= 10


def test_texts_that_are_no_unicode_and_huge_ones_are_refused(found: Dataset) -> None:
    for text, why in (("\ud800", "no valid Unicode"), ("common " * 1_000_000, "characters")):
        queries: list[Any] = [text, {"match": {"query": text, "column": "t"}}, {"match": {"query": "x", "column": text}}, {text: {}}]
        for query in queries:
            with pytest.raises(InvalidOptionError, match=why):
                count(found, query)


VALUES: list[Any] = [None, True, -1, 1 << 40, 10**400, 0.5, float("nan"), float("inf"), 1e300, "", "words", b"x", [], [1], {}, {"a": 1}]
VALUES += [object(), np.array([1, 2]), np.float32(2), {1, 2}, (), "x" * 100, pa.scalar("x"), [None], [{}], ["t", 5], [["t"]]]
QUERIES: dict[str, Mapping[str, Any]] = {
    "match": {"query": "common", "column": "t", "operator": "or", "fuzziness": 0, "prefix_length": 0, "max_expansions": 5, "boost": 1.0},
    "phrase": {"query": "common", "column": "t", "slop": 0, "terms": "common"},
    "boost": {"positive": deep(0), "negative": deep(0), "negative_boost": 0.5},
    "multi_match": {"query": "common", "columns": ["t"], "operator": "or", "boosts": [1.0], "boost": [1.0]},
    "combined_fields": {"query": "common", "columns": ["t"], "operator": "or", "boosts": [1.0]},
    "boolean": {"must": [deep(0)], "should": [deep(0)], "must_not": [deep(0)]},
}


def refusal(found: Dataset, query: object) -> str:
    """Why the query is refused; empty if it is not."""
    try:
        count(found, query, limit=3)
    except (InvalidOptionError, SchemaMismatchError) as e:
        return str(e)
    return ""


@pytest.mark.parametrize(("kind", "key"), [(kind, key) for kind, given in QUERIES.items() for key in given])
def test_any_value_at_any_key_is_taken_or_refused(found: Dataset, kind: str, key: str) -> None:
    reasons = [refusal(found, {kind: {**QUERIES[kind], key: value}}) for value in VALUES]
    assert sum(map(bool, reasons)) > 5
    assert max(map(len, reasons)) < 500


@pytest.mark.parametrize("value", VALUES, ids=lambda value: str(value)[:20])
def test_any_value_as_a_query_or_its_parameters_is_taken_or_refused(found: Dataset, value: object) -> None:
    assert isinstance(value, str | None) or refusal(found, value)
    queries = ({"match": value}, {"query": value}, {"query": "common", "columns": value}, {"match": {}, "x": value})
    assert max(len(refusal(found, query)) for query in queries) < 500
