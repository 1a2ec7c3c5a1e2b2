"""Near duplicates of vectors are those that comparing all rows with all others finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset, LanceTable
from lance_spark.errors import InvalidOptionError
from tests.table.search.vectors import table, vectors


def with_copies(rows: int = 400) -> np.ndarray:
    """Vectors of which some are exact copies of others, and some differ a little: chains of up to four rows."""
    values = vectors(rows=rows)
    for i in range(0, 80, 4):
        values[i + 1] = values[i]
        values[i + 2] = values[i] + 0.01
        values[i + 200] = values[i + 2] + 0.01
    return values


def groups_of(pairs: set[tuple[int, int]]) -> dict[int, int]:
    """The lowest row of the group of each row."""
    first = {row: row for pair in pairs for row in pair}
    for _ in first:
        for a, b in pairs:
            first[a] = first[b] = min(first[a], first[b])
    return first


def check(spark: SparkSession, path: Path, distance: float, rows: list[int], **given: Any) -> None:
    """Compare with distances of all rows to all others; `rows` are the numbers of those that are there."""
    found = LanceTable.forPath(spark, str(path)).nearDuplicateVectors("vec", distance, **given)
    ids = Dataset.open(str(path)).scan(columns=["id"], with_row_id=True).to_table()
    number = dict(zip(ids["_rowid"].to_pylist(), ids["id"].to_pylist()))
    pairs = found.pairs.persist()
    values = with_copies()[rows].astype(np.float64)
    apart = ((values[:, None] - values[None]) ** 2).sum(axis=2)
    near = np.argwhere(np.triu(apart <= distance + 1e-6, 1))
    expected = {(rows[a], rows[b]) for a, b in near}
    assert {(number[a], number[b]) for a, b, _ in pairs.collect()} == expected
    assert all(row.id_a < row.id_b and row._distance <= distance + 1e-6 for row in pairs.collect())
    groups = {number[row.id]: number[row.group_id] for row in found.groups.collect()}
    assert groups == groups_of(expected)
    pairs.unpersist()


def test_near_duplicates_are_those_of_all_rows(spark: SparkSession, tmp_path: Path) -> None:
    dataset = lance.write_dataset(table(with_copies()), tmp_path / "t", max_rows_per_file=150)
    everything = list(range(400))
    check(spark, tmp_path / "t", 0, everything)
    check(spark, tmp_path / "t", 0.001, everything)
    dataset.create_index("vec", "IVF_PQ", num_partitions=4, num_sub_vectors=4)
    dataset.delete("id = 5")
    check(spark, tmp_path / "t", 0.001, [i for i in everything if i != 5], nprobes=4, refine_factor=5)
    check(spark, tmp_path / "t", 0.001, [i for i in everything if i >= 100], nprobes=4, refine_factor=5, filter="id >= 100")


def test_what_cannot_be_near_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    lance.write_dataset(table(vectors()), tmp_path / "t")
    ours = LanceTable.forPath(spark, str(tmp_path / "t"))
    for distance, given, message in [
        (float("nan"), {}, "finite"),
        ("near", {}, "finite"),
        (1, {"distance_range": (0, 1)}, "leave distance_range out"),
        (1, {"k": 0.5}, "k must be"),
        (1, {"k": 0}, "k must be"),
        (1, {"probes": 3}, "no parameter"),
    ]:
        with pytest.raises(InvalidOptionError, match=message):
            ours.nearDuplicateVectors("vec", distance, **given)  # type: ignore[arg-type]
