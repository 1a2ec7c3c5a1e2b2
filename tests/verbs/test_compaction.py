"""Compaction joins small fragments and drops deleted rows; rows, ids and row versions stay, and pylance goes on with the table."""

from __future__ import annotations

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.query import DocumentGranularity
from pyspark.sql import SparkSession

from lance_spark import Dataset, LanceTable

COLUMNS = ["id", "name", "v", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


def rows(count: int, start: int = 0) -> pa.Table:
    ids = np.arange(start, start + count)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(ids, 4).astype(np.float32)), 4)
    names = pa.array([None if i % 5 == 0 else [f"n{i}"] * (i % 3) for i in range(start, start + count)])
    return pa.table({"id": ids, "name": names, "v": vectors})


def read(uri: str, stable: bool) -> pa.Table:
    dataset = lance.dataset(uri)
    dataset.validate()
    assert Dataset.open(uri).verify().ok
    return Dataset.open(uri).scan(columns=COLUMNS if stable else COLUMNS[:3]).to_table().sort_by("id")


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable row ids"])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_small_fragments_are_joined(spark: SparkSession, uri: str, stable: bool, version: str) -> None:
    for start in range(0, 500, 100):
        lance.write_dataset(rows(100, start), uri, mode="append", enable_stable_row_ids=stable, data_storage_version=version)
    lance.dataset(uri).delete("id % 7 = 3")
    before = read(uri, stable)
    done = LanceTable.forPath(spark, uri).optimize().executeCompaction(target_rows_per_fragment=200)
    assert read(uri, stable).equals(before)
    assert (done.fragments_removed, done.fragments_added, done.conflicts) == (5, len(lance.dataset(uri).get_fragments()), 0)
    assert not any(f.deletion_file() for f in lance.dataset(uri).get_fragments())
    lance.write_dataset(rows(10, 1000), uri, mode="append")
    lance.dataset(uri).optimize.compact_files()
    assert lance.dataset(uri).count_rows() == before.num_rows + 10


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable row ids"])
def test_pages_of_fragments_without_deleted_rows_are_copied(spark: SparkSession, uri: str, stable: bool) -> None:
    for start in range(0, 4):
        Dataset.write(uri, rows(70_000, start * 70_000), mode="append", enable_stable_row_ids=stable)
    before = read(uri, stable)
    LanceTable.forPath(spark, uri).optimize().executeCompaction()
    assert [f.count_rows() for f in lance.dataset(uri).get_fragments()] == [280_000]
    assert read(uri, stable).equals(before)
    assert lance.dataset(uri).to_table().sort_by("id").equals(Dataset.open(uri).scan().to_table().sort_by("id"))


def test_large_fragments_are_split(spark: SparkSession, uri: str) -> None:
    lance.write_dataset(rows(1000), uri)
    LanceTable.forPath(spark, uri).optimize().executeCompaction(target_rows_per_fragment=300)
    assert [f.count_rows() for f in lance.dataset(uri).get_fragments()] == [300, 300, 300, 100]


def test_limits_of_the_sources_and_fragments_that_stay(spark: SparkSession, uri: str) -> None:
    for start in range(0, 600, 100):
        lance.write_dataset(rows(100, start), uri, mode="append")
    optimizer = LanceTable.forPath(spark, uri).optimize()
    done = optimizer.executeCompaction(
        200, max_source_fragments=3, max_source_rows=300, max_source_bytes=1 << 30, excluded_fragment_ids=[1]
    )
    assert (done.fragments_removed, done.fragments_added) == (2, 1)
    assert [f.fragment_id for f in lance.dataset(uri).get_fragments()][:3] == [0, 1, 4]
    with pytest.raises(ValueError, match="max_source_bytes"):
        optimizer.executeCompaction(max_source_bytes=0)


def test_nothing_to_do_makes_no_version(spark: SparkSession, uri: str) -> None:
    lance.write_dataset(rows(100), uri)
    done = LanceTable.forPath(spark, uri).optimize().executeCompaction()
    assert (done.version, done.fragments_removed) == (1, 0)


def test_only_fragments_with_matching_rows_are_compacted(spark: SparkSession, uri: str) -> None:
    for start in range(0, 400, 100):
        lance.write_dataset(rows(100, start), uri, mode="append")
    LanceTable.forPath(spark, uri).optimize().where("id >= 200").executeCompaction()
    assert [f.count_rows() for f in lance.dataset(uri).get_fragments()] == [100, 100, 200]


def test_scalar_indexes_follow_their_rows(spark: SparkSession, uri: str) -> None:
    for start in range(0, 400, 100):
        lance.write_dataset(rows(100, start), uri, mode="append")
    table = LanceTable.forPath(spark, uri)
    table.createIndex("id", "BTREE")
    table.createIndex("id", "ZONEMAP", name="zones")
    table.delete("id % 10 = 1")
    done = table.optimize().executeCompaction()
    assert (done.left_out, done.fragments_removed, done.fragments_added) == ((), 4, 1)
    assert [table.indexStatistics(name)["num_unindexed_rows"] for name in ("id_idx", "zones")] == [0, 0]
    assert lance.dataset(uri).to_table(filter="id = 150 OR id = 151")["id"].to_pylist() == [150]
    assert table.toDF().where("id IN (150, 151, 399)").count() == 2


def test_fragments_of_an_index_that_cannot_follow_are_skipped_and_listed(spark: SparkSession, uri: str) -> None:
    for start in range(0, 200, 100):
        lance.write_dataset(words(100, start), uri, mode="append")
    lance.dataset(uri).create_scalar_index("words", "INVERTED", document_granularity=DocumentGranularity.LIST_ELEMENT)
    for start in range(200, 400, 100):
        lance.write_dataset(words(100, start), uri, mode="append")
    done = LanceTable.forPath(spark, uri).optimize().executeCompaction()
    assert done.left_out == (0, 1)
    assert [f.count_rows() for f in lance.dataset(uri).get_fragments()] == [100, 100, 200]
    assert Dataset.open(uri).index_statistics("words_list_element_idx")["num_indexed_rows"] == 200
    LanceTable.forPath(spark, uri).optimize().executeCompaction(drop_index_coverage=True)
    assert [f.count_rows() for f in lance.dataset(uri).get_fragments()] == [200, 200]
    assert Dataset.open(uri).index_statistics("words_list_element_idx")["num_indexed_rows"] == 0


def words(count: int, start: int) -> pa.Table:
    ids = range(start, start + count)
    return pa.table({"id": ids, "words": [[f"w{i}"] for i in ids]})
