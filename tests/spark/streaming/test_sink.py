"""Writing a stream to a table: each row once, whatever Spark repeats."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from lance_spark import Dataset


class Source:
    """A folder of JSON files, from which a stream reads one file in a batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.folder = folder / "in"
        self.folder.mkdir()
        reader = spark.readStream.schema("id long, s string").option("maxFilesPerTrigger", 1)
        self.stream: DataFrame = reader.json(str(self.folder))
        self.checkpoint = folder / "checkpoint"

    def add(self, *ids: int) -> None:
        """A file with these rows."""
        number = len(list(self.folder.iterdir()))
        file = self.folder / f"{number}.json"
        file.write_text("".join(json.dumps({"id": i, "s": f"s{i}"}) + "\n" for i in ids))
        os.utime(file, (number + 1, number + 1))  # Spark reads the oldest file first

    def run(self, uri: str, stream: DataFrame | None = None, mode: str = "append", checkpoint: Path | None = None, **options: Any) -> None:
        """Run the query until it has written all files."""
        writer = (self.stream if stream is None else stream).writeStream.format("lance").outputMode(mode).options(**options)
        writer = writer.option("checkpointLocation", str(checkpoint or self.checkpoint)).trigger(availableNow=True)
        query = writer.start(uri)
        try:
            query.awaitTermination()
        finally:
            query.stop()


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Source:
    return Source(spark, tmp_path)


def ids(uri: str) -> list[int]:
    found: list[int] = lance.dataset(uri).to_table()["id"].to_pylist()
    return sorted(found)


def test_each_batch_with_rows_is_one_version_of_a_table_that_the_first_one_creates(source: Source, uri: str) -> None:
    source.add(1, 2)
    source.add()
    source.add(3)
    source.run(uri, enable_stable_row_ids="true", commit_message="from a stream")
    assert ids(uri) == [1, 2, 3]
    entries = Dataset.open(uri).history()
    assert [entry.message for entry in entries] == ["from a stream"] * 2
    assert [entry.properties["lance.streaming.epochId"] for entry in entries] == ["2", "0"]
    assert Dataset.open(uri).snapshot.manifest.has_stable_row_ids
    source.add(4)
    source.run(uri)
    assert ids(uri) == [1, 2, 3, 4]
    lance.dataset(uri).validate()


def test_a_batch_that_spark_repeats_after_its_commit_is_written_once(source: Source, uri: str) -> None:
    source.add(1)
    source.add(2)
    source.run(uri)
    (source.checkpoint / "commits" / "1").unlink()  # as if Spark had been killed before it noted the commit
    (source.checkpoint / "commits" / ".1.crc").unlink()
    lance.write_dataset(pa.table({"id": [10], "s": ["other"]}), uri, mode="append")
    source.add(3)
    source.run(uri)
    assert ids(uri) == [1, 2, 3, 10]
    named = {file.path for fragment in Dataset.open(uri).snapshot.manifest.fragments for file in fragment.files}
    assert {path.name for path in Path(uri, "data").iterdir()} == named, "the files of the repeated batch are deleted"


def test_complete_mode_replaces_the_rows(source: Source, uri: str) -> None:
    counts = source.stream.selectExpr("id % 2 AS id").groupBy("id").count()
    for batch in ((1, 2), (3,)):
        source.add(*batch)
        source.run(uri, counts, "complete")
    assert sorted(lance.dataset(uri).to_table().to_pylist(), key=lambda row: row["id"]) == [{"id": 0, "count": 1}, {"id": 1, "count": 2}]


def test_several_queries_write_one_table(source: Source, uri: str, tmp_path: Path) -> None:
    source.add(1)
    for name in ("a", "b"):
        source.run(uri, checkpoint=tmp_path / name, queryName=name)
        source.run(uri, checkpoint=tmp_path / name, queryName=name)
    assert ids(uri) == [1, 1]


def test_a_name_takes_the_place_of_the_id_of_the_query(source: Source, uri: str) -> None:
    for ids_of_batch in ((1, 2), (3,)):
        source.add(*ids_of_batch)
        source.run(uri, txnAppId="mine")
    assert ids(uri) == [1, 2, 3]
    assert [entry.properties.get("txnAppId") for entry in Dataset.open(uri).history()] == ["mine", "mine"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"txnVersion": "3", "txnAppId": "a"}, "the option txnVersion does not apply to a stream: the number of a batch is its txnVersion"),
        ({"write_mode": "create"}, "the option write_mode does not apply to a stream"),
        ({"replaceWhere": "id = 1"}, "the option replaceWhere does not apply to a stream: use foreachBatch"),
        ({"max_rows_per_fil": "1"}, "did you mean 'max_rows_per_file'"),
    ],
)
def test_options_of_single_writes_are_refused(source: Source, uri: str, options: dict[str, Any], message: str) -> None:
    source.add(1)
    with pytest.raises(StreamingQueryException, match=message):
        source.run(uri, **options)


def test_other_columns_than_the_table_has_stop_the_stream(source: Source, uri: str) -> None:
    Dataset.write(uri, pa.table({"other": [1]}))
    source.add(1)
    with pytest.raises(StreamingQueryException, match="other"):
        source.run(uri)
    assert Dataset.open(uri).version == 1


def test_options_of_a_stream_are_refused_by_a_single_write(spark: SparkSession, uri: str) -> None:
    with pytest.raises(Exception, match="the option 'checkpointLocation' applies only to writeStream"):
        spark.range(1).write.format("lance").mode("append").option("checkpointLocation", "/tmp/c").save(uri)
