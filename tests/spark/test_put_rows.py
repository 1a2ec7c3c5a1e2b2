"""Rows that Spark puts into a write-ahead log: by a stream, by foreachBatch, and by `LanceTable.putRows`."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lance_spark import Dataset, LanceTable
from lance_spark.errors import LanceError
from tests.spark_session import SPARK_ERRORS
from tests.table.mem_wal.writing import steps
from tests.write_ahead_logs import rows

Files = Callable[[list[tuple[int, str, bool]]], None]
SHARDING: dict[str, dict[str, Any]] = {
    "bucket": {"bucket_column": "id", "num_buckets": 3},
    "unsharded": {"unsharded": True},
    "identity": {"identity_column": "w"},
}
SHARD = str(uuid.UUID(int=5))
ERRORS = (LanceError, *SPARK_ERRORS)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(1, 2), uri)
    return uri


class Source:
    """A folder of JSON files, from which a stream reads one file in a batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.folder, self.checkpoint = folder / "in", folder / "checkpoint"
        self.folder.mkdir()
        reader = spark.readStream.schema("id long, v string, w int, gone boolean").option("maxFilesPerTrigger", 1)
        self.stream: DataFrame = reader.json(str(self.folder))

    def add(self, *found: tuple[int, str, bool]) -> None:
        number = len(list(self.folder.iterdir()))
        file = self.folder / f"{number}.json"
        file.write_text("".join(json.dumps({"id": i, "v": v, "w": i % 2, "gone": gone}) + "\n" for i, v, gone in found))
        os.utime(file, (number + 1, number + 1))  # Spark reads the oldest file first

    def run(self, uri: str, **options: Any) -> None:
        """Run the query until it has put all files."""
        writer = self.stream.writeStream.format("lance").options(**{"putIntoLog": "true", "logDeleted": "gone", **options})
        query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start(uri)
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def repeat(self, batch: int) -> None:
        """As if Spark had been killed before it noted the end of a batch."""
        for name in (f"{batch}", f".{batch}.crc"):
            (self.checkpoint / "commits" / name).unlink()


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Source:
    return Source(spark, tmp_path)


@pytest.mark.parametrize("sharding", ["bucket", "by hand"])
def test_a_stream_puts_each_batch_into_the_log_once(sharding: str, source: Source, uri: str) -> None:
    Dataset.open(uri).initialize_mem_wal(**SHARDING.get(sharding, {}))
    options = {} if sharding in SHARDING else {"logShard": SHARD}
    source.add((1, "new", False), (3, "c", False), (4, "d", False))
    source.add((2, "", True), (3, "C", False))
    source.run(uri, **options)
    assert steps.ours(uri) == {1: "new", 3: "C", 4: "d"}
    assert Dataset.open(uri).version == lance.dataset(uri).version == 2, "nothing was committed"
    entries = len([*Path(uri).glob("_mem_wal/*/wal/*.arrow")])
    source.repeat(1)
    source.run(uri, **options)
    assert len([*Path(uri).glob("_mem_wal/*/wal/*.arrow")]) - entries <= 3, "no more than marks of new writers"
    assert steps.ours(uri) == {1: "new", 3: "C", 4: "d"}
    source.add((5, "e", False))
    source.run(uri, **options)
    expected = {1: "new", 3: "C", 4: "d", 5: "e"}
    assert steps.ours(uri) == expected
    for folder in Path(uri, "_mem_wal").iterdir():
        assert steps.of_pylance(uri, folder.name) is not None
    Dataset.open(uri).merge_mem_wal()
    assert steps.shown(lance.dataset(uri).to_table()) == expected


def test_a_stream_merges_the_log_when_enough_generations_wait(source: Source, uri: str) -> None:
    Dataset.open(uri).initialize_mem_wal(unsharded=True, max_memtable_rows=2)
    for i in range(3, 11):
        source.add((i, str(i), False))
    source.run(uri, logMergeEvery="2")
    assert steps.ours(uri) == {i: str(i) for i in range(1, 11)}
    assert len(steps.shown(lance.dataset(uri).to_table())) >= 6


REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "no shard": ({}, "name one"),
    "no column": ({"logShard": SHARD, "logDeleted": "other"}, "column"),
    "no UUID": ({"logShard": "x"}, "UUID"),
    "files": ({"logShard": SHARD, "max_rows_per_file": "5"}, "max_rows_per_file"),
    "schema": ({"logShard": SHARD, "mergeSchema": "true"}, "mergeSchema"),
    "not into the log": ({"logShard": SHARD, "putIntoLog": "false"}, "putIntoLog"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_options_that_do_not_fit_are_refused(case: str, source: Source, uri: str) -> None:
    Dataset.open(uri).initialize_mem_wal()
    options, message = REFUSED[case]
    source.add((3, "c", False))
    with pytest.raises(SPARK_ERRORS, match=message):
        source.run(uri, **{"logDeleted": "gone", **options})


@pytest.mark.parametrize("sharding", SHARDING)
def test_put_rows_puts_each_row_into_its_shard(sharding: str, spark: SparkSession, uri: str) -> None:
    Dataset.open(uri).initialize_mem_wal(**SHARDING[sharding])
    table = LanceTable.forPath(spark, uri)
    frame = spark.range(2, 50, 1, 4).select("id", F.concat(F.lit("v"), "id").alias("v"), (F.col("id") % 2).cast("int").alias("w"))
    assert table.putRows(frame) == 48
    expected = {1: "1"} | {i: f"v{i}" for i in range(2, 50)}
    assert {row.id: row.v for row in table.toDF().collect()} == expected == steps.ours(uri)
    shards = [folder.name for folder in Path(uri, "_mem_wal").iterdir()]
    assert len(shards) == {"bucket": 3, "unsharded": 1, "identity": 2}[sharding]
    gone = (
        spark.createDataFrame([(3, True), (4, False)], "id long, gone boolean")
        .withColumn("v", F.lit("w"))
        .withColumn("w", F.col("id").cast("int") % 2)
    )
    assert table.putRows(gone, deleted="gone") == 2
    del expected[3]
    expected[4] = "w"
    assert steps.ours(uri) == expected
    for shard in shards:
        lance.dataset(uri).mem_wal_writer(shard).close()
    table.mergeMemWal()
    assert steps.shown(lance.dataset(uri).to_table()) == expected


def test_put_rows_of_a_batch_are_put_once(spark: SparkSession, uri: str) -> None:
    """By the number of the batch, as in foreachBatch. A table without a key shows that they are not put again."""
    plain = f"{uri}.plain"
    spark.range(1).write.format("lance").mode("append").save(plain)
    Dataset.open(plain).initialize_mem_wal()
    table = LanceTable.forPath(spark, plain)
    for number in (0, 0, 1, 0, 1):
        put = table.putRows(spark.range(5, 8), shard=SHARD, txnAppId="stream", txnVersion=number)
        assert put in (0, 3)
    assert sorted(Dataset.open(plain).to_table()["id"].to_pylist()) == [0, 5, 5, 6, 6, 7, 7]
    assert table.putRows(spark.range(5, 8), shard=SHARD) == 3
    assert table.putRows(spark.range(0), shard=SHARD) == 0
    with pytest.raises(ERRORS, match="go together"):
        table.putRows(spark.range(5, 8), shard=SHARD, txnAppId="stream")
    with pytest.raises(ERRORS, match="name one"):
        table.putRows(spark.range(5, 8))
    with pytest.raises(ERRORS, match="initialize_mem_wal"):
        LanceTable.forPath(spark, uri).putRows(spark.range(5, 8))
    with pytest.raises(ERRORS, match="not in the table"):
        table.putRows(spark.range(5, 8).withColumnRenamed("id", "other"), shard=SHARD)
