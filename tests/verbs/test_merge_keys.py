"""merge with a declared primary key: a key that another writer inserts meanwhile is updated, not inserted a second time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from lance_spark import Dataset, LanceTable
from lance_spark.metadata.operations import Update
from lance_spark.table.versions.history import transaction_of

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["a", "b"]}, schema=pa.schema([("id", pa.int64(), False), ("v", pa.string())]))


@pytest.mark.parametrize("library", ["pylance", "ours"])
def test_a_key_that_is_inserted_meanwhile_is_updated(uri: str, spark: SparkSession, tmp_path: Path, library: str) -> None:
    Dataset.write(uri, ROWS)
    table = LanceTable.forPath(spark, uri)
    table.setPrimaryKey(["id"])
    once, row = tmp_path / "done", pa.table({"id": [7], "v": ["theirs"]}, schema=ROWS.schema)

    def other_writer_first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not once.exists():
            once.touch()
            dataset = lance.dataset(uri) if library == "pylance" else Dataset.open(uri)
            dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(row)
        yield from batches

    source = (
        spark.createDataFrame([(7, "ours"), (2, "new")], "id long, v string")
        .coalesce(1)
        .mapInArrow(other_writer_first, "id long, v string")
    )
    builder = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    done = builder.execute()
    assert (done.num_updated_rows, done.num_inserted_rows) == (2, 0)
    lance.dataset(uri).validate()
    rows = lance.dataset(uri).to_table().sort_by("id").to_pylist()
    assert rows == [{"id": 1, "v": "a"}, {"id": 2, "v": "new"}, {"id": 7, "v": "ours"}]


@pytest.mark.parametrize(
    ("condition", "recorded"),
    [("t.id = s.id AND s.v <> ''", True), (lambda: F.col("t.id") == F.col("s.ID"), True), ("t.v = s.v", False), ("t.v = s.idle", False)],
    ids=["text", "column", "another column", "a name that contains the key's"],
)
def test_keys_are_recorded_where_the_condition_names_the_key(
    uri: str, spark: SparkSession, condition: str | Callable[[], Column], recorded: bool
) -> None:
    Dataset.write(uri, ROWS)
    table = LanceTable.forPath(spark, uri)
    table.setPrimaryKey(["id"])
    source = spark.createDataFrame([(7, "ours", "x")], "id long, v string, idle string")
    table.alias("t").merge(source.alias("s"), condition() if callable(condition) else condition).whenNotMatchedInsertAll().execute()
    operation = transaction_of(Dataset.open(uri).snapshot).operation
    assert isinstance(operation, Update)
    assert (operation.inserted_keys is not None) == recorded


def test_keys_in_structs_conflict_with_all_others(uri: str, spark: SparkSession) -> None:
    key = pa.field("id", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"})
    lance.write_dataset(pa.schema([pa.field("k", pa.struct([key]), nullable=False)]).empty_table(), uri)
    source = spark.createDataFrame([((7,),)], "k struct<id: long>")
    table = LanceTable.forPath(spark, uri).alias("t")
    table.merge(source.alias("s"), "t.k.id = s.k.id").whenNotMatchedInsertAll().execute()
    operation = transaction_of(Dataset.open(uri).snapshot).operation
    assert isinstance(operation, Update)
    assert operation.inserted_keys is not None
    assert (operation.inserted_keys.field_ids, operation.inserted_keys.hashes) == ((1,), (0,))
    assert lance.dataset(uri).to_table().to_pylist() == [{"k": {"id": 7}}]
