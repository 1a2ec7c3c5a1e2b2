"""Near duplicates of texts are those that comparing the sets of shingles of all rows finds, and pylance's index, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset, LanceTable
from lance_spark.errors import InvalidOptionError
from tests.spark.test_near_duplicates import groups_of

ROWS = 240
Pairs = set[tuple[int, int]]


def texts() -> list[str | None]:
    """Texts of 60 words. Of six in a row, the second equals the first, the third has another word, and two have no words."""
    random = np.random.default_rng(1)
    found: list[str | None] = []
    for i in range(ROWS // 6):
        words = [f"w{n}" for n in random.integers(0, 3000, 60)]
        changed = [*words[:30], "changed", *words[31:]]
        others = [f"u{n}" for n in random.integers(0, 3000, 60)]
        found += [" ".join(words), " ".join(words).upper(), " ".join(changed), " ".join(others), None if i % 2 else "", " \n"]
    return found


def shingles(text: str | None, size: int = 3) -> frozenset[tuple[str, ...]]:
    words = (text or "").lower().split()
    return frozenset(tuple(words[i : i + size]) for i in range(len(words) - size + 1))


def similar(values: list[str | None], threshold: float) -> Pairs:
    """All pairs that are so similar by their shingles."""
    sets = [(i, shingles(text)) for i, text in enumerate(values) if shingles(text)]
    return {(i, j) for i, a in sets for j, b in sets if i < j and len(a & b) >= threshold * len(a | b)}


def found_in(spark: SparkSession, uri: str, threshold: float, **given: Any) -> tuple[Pairs, dict[int, int]]:
    """The pairs and the groups, by the numbers of rows; distances are right."""
    found = LanceTable.forPath(spark, uri).nearDuplicates("text", threshold, **given)
    ids = Dataset.open(uri).scan(columns=["id"], with_row_id=True).to_table()
    number = dict(zip(ids["_rowid"].to_pylist(), ids["id"].to_pylist()))
    persisted = found.pairs.persist()
    pairs = {(number[row.id_a], number[row.id_b]): row._distance for row in persisted.collect()}
    assert all(0 <= distance <= 1 - threshold + 1e-9 for distance in pairs.values())
    groups = {number[row.id]: number[row.group_id] for row in found.groups.collect()}
    persisted.unpersist()
    return set(pairs), groups


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable row ids"])
def test_pairs_are_those_with_most_shingles_in_common(spark: SparkSession, tmp_path: Path, stable: bool) -> None:
    uri, values = str(tmp_path / "t"), texts()
    rows = pa.table({"id": range(ROWS), "text": values})
    lance.write_dataset(rows.slice(0, 120), uri, max_rows_per_file=60, enable_stable_row_ids=stable)
    # An index of the first rows: those of pylance, then those of ours and of rows that it does not cover.
    lance.dataset(uri).create_scalar_index("text", "MINHASHLSH")
    Dataset.write(uri, rows.slice(120), "append")
    expected = similar(values, 0.8)
    pairs, groups = found_in(spark, uri, 0.7)
    # Of three similar rows of which two are equal, the third is paired with the first of the two alone.
    assert pairs == {(a, b) for a, b in expected if a % 6 == 0}
    assert groups == groups_of(expected)
    Dataset.open(uri).delete("id = 0").optimize.compact_files()
    after, _ = found_in(spark, uri, 0.7)
    assert after == {(1, 2)} | {(a, b) for a, b in pairs if a}


def test_rows_are_chosen_by_a_filter_and_signed_with_given_parameters(spark: SparkSession, tmp_path: Path) -> None:
    uri, values = str(tmp_path / "t"), texts()
    lance.write_dataset(pa.table({"id": range(ROWS), "text": values}), uri, max_rows_per_file=60)
    expected = {(a, b) for a, b in similar(values, 0.8) if a % 6 == 0 and a >= 60}
    assert found_in(spark, uri, 0.7, filter="id >= 60", num_hashes=256)[0] == expected


def test_what_cannot_be_similar_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"id": [1], "text": ["a"]}), tmp_path / "t")
    table = LanceTable.forPath(spark, str(tmp_path / "t"))
    for column, threshold, given, message in [
        ("text", 0, {}, "threshold"),
        ("text", 1.5, {}, "threshold"),
        ("text", True, {}, "threshold"),
        ("id", 0.5, {}, "not of texts"),
        ("text", 0.5, {"k": 3}, "no parameter 'k'"),
        ("text", 0.5, {"num_hashes": 0}, "num_hashes"),
    ]:
        with pytest.raises(InvalidOptionError, match=message):
            table.nearDuplicates(column, threshold, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("indexed", [True, False], ids=["indexed", "not indexed"])
def test_a_search_finds_the_texts_that_are_most_similar_to_one(spark: SparkSession, tmp_path: Path, indexed: bool) -> None:
    uri, values = str(tmp_path / "t"), texts()
    table = Dataset.write(uri, pa.table({"id": range(ROWS), "text": values}))
    if indexed:
        table.create_scalar_index("text", "MINHASHLSH")
    rows = LanceTable.forPath(spark, uri).search("text").nearest(values[6] or "", k=3).toDF().select("id", "_distance").collect()
    assert [row.id for row in rows] == [6, 7, 8]
    assert [row._distance for row in rows[:2]] == [0.0, 0.0]
    option = json.dumps({"column": "text", "q": values[6], "k": 3})
    again = spark.read.format("lance").option("nearest", option).load(uri).where("id > 6").select("id").collect()
    assert [row.id for row in again] == [7, 8]
