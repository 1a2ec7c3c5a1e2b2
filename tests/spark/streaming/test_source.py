"""Reading a table as a stream in Spark: what a batch has is tested in tests/table/feed/test_stream.py, and here that queries do that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from lance_spark import Dataset, LanceTable
from tests.spark_session import SPARK_ERRORS, SPARK_VERSION


def write(uri: str, *ids: int) -> None:
    rows = pa.table({"id": pa.array(ids, pa.int64()), "s": [f"s{i}" for i in ids]})
    Dataset.write(uri, rows, mode="append" if Path(uri).exists() else "create", enable_stable_row_ids=True)


class Query:
    """A query with a checkpoint that collects the rows of a stream, batch by batch."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.batches: list[list[Any]] = []

    def run(self, stream: DataFrame) -> list[list[Any]]:
        """Read what is there: the rows of each batch. Raises StreamingQueryException."""
        self.batches = []
        writer = stream.writeStream.foreachBatch(lambda batch, _: self.batches.append(sorted(map(tuple, batch.collect()))))
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        has_available_now = SPARK_VERSION >= (4, 2)  # before, it reads one batch within the limits
        query = (writer.trigger(availableNow=True) if has_available_now else writer).start()
        try:
            if has_available_now:
                query.awaitTermination()
            else:
                query.processAllAvailable()
        finally:
            query.stop()
        return self.batches


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table with the ids 1 and 2, in one fragment each: version 2."""
    uri = str(tmp_path / "t.lance")
    write(uri, 1)
    write(uri, 2)
    return uri


def test_a_query_reads_each_row_once_also_after_a_batch_that_failed(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    query = Query(tmp_path / "checkpoint")
    stream = spark.readStream.format("lance").option("maxFilesPerTrigger", 1).option("columns", "id").option("filter", "id <> 4").load(uri)
    assert query.run(stream) == [[(1,)], [(2,)]]
    write(uri, 3)
    write(uri, 4, 5)
    assert query.run(stream) == [[(3,)], [(5,)]]
    commit = query.checkpoint / "commits" / "3"
    commit.unlink()  # as if Spark had been killed in the last batch
    commit.with_name(".3.crc").unlink()
    Dataset.open(uri).optimize.compact_files()
    write(uri, 6)
    again = spark.readStream.format("lance").option("columns", "id").option("filter", "id <> 4").load(uri)
    assert query.run(again) == [[(5,)], [(6,)]]
    noted = json.loads((query.checkpoint / "offsets" / "4").read_text().splitlines()[-1])
    assert noted["version"] == Dataset.open(uri).version + 1


def test_tables_of_catalogs_and_changes_are_streams_too(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    write(uri, 1, 2)
    lance_spark.catalog(spark, "streams", root=str(tmp_path))
    spark.sql(f"CREATE TABLE streamed USING lance LOCATION '{uri}'")
    try:
        for name in ("streams.t", "streamed"):
            rows = Query(tmp_path / name)
            assert rows.run(spark.readStream.table(name).where("id > 1")) == [[(2, "s2")]]
        feed = spark.readStream.option("readChangeFeed", "true").table("streams.t").drop("_commit_timestamp")
        changes = Query(tmp_path / "changes")
        assert changes.run(feed) == [[(1, "s1", "insert", 1), (2, "s2", "insert", 1)]]
        Dataset.open(uri).update({"s": "'x'"}, "id = 2")
        assert changes.run(feed) == [[(2, "s2", "update_preimage", 2), (2, "x", "update_postimage", 2)]]
        with pytest.raises(StreamingQueryException, match="skipChangeCommits=true"):
            rows.run(spark.readStream.table("streamed"))
        place = Query(tmp_path / "place")
        place.run(spark.readStream.option("consumerId", "bills").option("consumerExpiration", "1h").table("streams.t"))
        write(uri, 3)
        consumers = spark.sql("CALL streams.system.consumers('t')")
        assert [row[:4] for row in consumers.collect()] == [("bills", None, 2, 1)]
        assert [c.id for c in LanceTable.forPath(spark, uri).consumers.list()] == ["bills"]
        assert spark.sql("CALL streams.system.drop_consumer('t', 'bills')").collect() == [("bills",)]
        assert spark.sql("CALL streams.system.consumers('t')").collect() == []
    finally:
        spark.sql("DROP TABLE streamed")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endingVersion": "3"}, "the option 'endingVersion' does not apply to readStream"),
        ({"netChanges": "true"}, "the option 'netChanges' does not apply to readStream"),
        ({"version": "1"}, "the option 'version' does not apply to readStream; startingVersion chooses"),
        ({"limit": "1"}, "the option 'limit' does not apply to readStream"),
        ({"withEventTimeOrder": "true"}, "the option 'withEventTimeOrder' is not implemented: .* startingVersion"),
        ({"consumerExpiration": "1 day"}, "the option 'consumerExpiration' needs consumerId"),
        ({"consumerExpiration": "soon", "consumerId": "a"}, "a duration such as 14days"),
        ({"consumerId": "a/b"}, "letters, digits"),
        ({"startingVersion": "1", "startingTimestamp": "2026-01-01"}, "give either startingVersion or startingTimestamp"),
    ],
)
def test_options_of_a_single_read_are_refused(spark: SparkSession, uri: str, options: dict[str, str], message: str) -> None:
    with pytest.raises((*SPARK_ERRORS, StreamingQueryException), match=message):
        spark.readStream.format("lance").options(**options).load(uri).writeStream.format("noop").start().awaitTermination()


def test_options_of_a_stream_are_refused_by_a_single_read(spark: SparkSession, uri: str) -> None:
    with pytest.raises(SPARK_ERRORS, match="the option 'maxFilesPerTrigger' applies only to readStream"):
        spark.read.format("lance").option("maxFilesPerTrigger", 3).load(uri).collect()
