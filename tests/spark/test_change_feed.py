"""The change feed in Spark has the rows of `Dataset.changes`, by every door."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import lance_spark
from lance_spark import Dataset, LanceTable
from lance_spark.spark.source import LanceDataSource
from tests.spark_session import SPARK_ERRORS, SPARK_VERSION


def changed(uri: str) -> Dataset:
    """Insert, update, delete and add a column to the table: versions 2 to 5."""
    Dataset.open(uri).update({"s": "'x'"}, "id = 2").delete("id = 3")
    Dataset.write(uri, pa.table({"id": [5], "s": ["e"]}), mode="append")
    return Dataset.open(uri).add_columns({"t": "concat(s, s)"})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a namespace with the table `t`."""
    root = tmp_path_factory.mktemp("feed")
    rows = pa.table({"id": pa.array([1, 2, 3, 4], pa.int64()), "s": list("abcd")})
    Dataset.write(str(root / "t.lance"), rows, enable_stable_row_ids=True)
    changed(str(root / "t.lance"))
    return root


@pytest.fixture(scope="module")
def place(root: Path) -> str:
    return str(root / "t.lance")


@pytest.fixture(scope="module")
def doors(spark: SparkSession, root: Path, place: str) -> Iterator[None]:
    """The table in a catalog, in the session catalog, and as views."""
    lance_spark.catalog(spark, "feeds", root=str(root))
    spark.sql(f"CREATE TABLE fed USING lance LOCATION '{place}'")
    spark.sql(f"CREATE TEMPORARY VIEW feed_seen USING lance OPTIONS (path '{place}')")
    feed = f"path '{place}', readChangeFeed 'true', startingVersion '2', endingVersion '4'"
    spark.sql(f"CREATE TEMPORARY VIEW feed_of_path USING lance OPTIONS ({feed})")
    yield
    spark.sql("DROP TABLE fed")


def rows(found: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in found.collect()), key=str)


def expected(uri: str, begin: int, end: int | None = None, **options: Any) -> list[dict[str, Any]]:
    found = Dataset.open(uri).changes(begin, end, **options).to_table()
    # Spark shows a time without its zone.
    return sorted(({**row, "_commit_timestamp": row["_commit_timestamp"].timestamp()} for row in found.to_pylist()), key=str)


def plain(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(({**row, "_commit_timestamp": row["_commit_timestamp"].timestamp()} for row in found), key=str)


@pytest.mark.usefixtures("doors")
def test_every_door_gives_the_changes_that_dataset_gives(spark: SparkSession, place: str) -> None:
    feed = spark.read.format("lance").option("readChangeFeed", "true").option("startingVersion", 2).option("endingVersion", 4)
    found = {
        "path": feed.load(place),
        "catalog table": feed.table("feeds.t"),
        "session catalog": feed.table("fed"),
        "view": spark.table("feed_of_path"),
        "LanceTable": LanceTable.forPath(spark, place).changes(1, 4),
        "SQL of a path": spark.sql(f"SELECT * FROM lance_changes('{place}', 2, 4)"),
        "SQL of a catalog table": spark.sql("SELECT * FROM lance_changes('feeds.t', 2, 4)"),
        "SQL of a session table": spark.sql("SELECT * FROM table_changes('fed', 2, 4)"),
        "SQL of a view": spark.sql("SELECT * FROM lance_changes('feed_seen', 2, 4)"),
    }
    wanted = expected(place, 1, 4)
    assert len(wanted) == 4
    for door, df in found.items():
        assert plain(rows(df)) == wanted, door


def test_the_first_values_of_a_column_come_through_every_door(spark: SparkSession, tmp_path: Path) -> None:
    """The column had no file before the update, and must not be null since: the rows before are null all the same."""
    uri = str(tmp_path / "t.lance")
    Dataset.write(uri, pa.table({"id": [1, 2], "s": ["a" * 50] * 2}), enable_stable_row_ids=True)
    table = Dataset.open(uri).add_columns(pa.field("n", pa.int64())).update({"n": "id * 7"})
    table.alter_columns({"path": "n", "nullable": False})
    feed = {"readChangeFeed": "true", "startingVersion": "3"}
    stream = spark.readStream.format("lance").options(**feed).load(uri).writeStream.format("memory").queryName("first_values")
    query = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    found = {
        "path": spark.read.format("lance").options(**feed).load(uri),
        "net": spark.read.format("lance").options(**feed, netChanges="true").load(uri),
        "SQL": spark.sql(f"SELECT * FROM lance_changes('{uri}', 3)"),
        "LanceTable": LanceTable.forPath(spark, uri).changes(2),
        "stream": spark.table("first_values"),
    }
    wanted = expected(uri, 2)
    assert [row["n"] for row in wanted if row["_change_type"] == "update_preimage"] == [None, None]
    for door, df in found.items():
        assert plain(rows(df)) == wanted, door


def test_columns_filters_counts_and_net_changes(spark: SparkSession, place: str) -> None:
    read = spark.read.format("lance").option("readChangeFeed", "true").option("startingVersion", 0)
    every = read.load(place)
    assert plain(rows(every)) == expected(place, 0)
    assert every.count() == len(expected(place, 0))
    assert [row.id for row in every.where("_change_type = 'delete'").select("id").collect()] == [3]
    found = every.groupBy("_change_type").count().collect()
    assert {tuple(row) for row in found} == {("insert", 5), ("update_preimage", 1), ("update_postimage", 1), ("delete", 1)}
    net = read.option("netChanges", "true").option("columns", "id").option("filter", "id > 1 AND _change_type = 'insert'").load(place)
    assert plain(rows(net)) == expected(place, 0, net=True, columns=["id"], filter="id > 1")
    times = {row["_commit_version"]: row["_commit_timestamp"] for row in Dataset.open(place).changes(0).to_table().to_pylist()}
    since = spark.sql(f"SELECT id FROM lance_changes('{place}', '{times[3].isoformat()}', TIMESTAMP '{times[4].isoformat()}')")
    assert sorted(row.id for row in since.collect()) == [3, 5]
    assert LanceTable.forPath(spark, place).changes(5).collect() == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"readChangeFeed": "true"}, "needs a start: give either startingVersion or startingTimestamp"),
        ({"readChangeFeed": "true", "startingVersion": "1", "startingTimestamp": "2026-01-01"}, "give either startingVersion or"),
        ({"readChangeFeed": "true", "startingVersion": "latest"}, "'latest' in a stream only"),
        ({"readChangeFeed": "true", "startingVersion": "-1"}, "takes a whole number from 0 to 9223372036854775807, or latest"),
        ({"readChangeFeed": "true", "startingVersion": str(2**63)}, "takes a whole number from 0"),
        ({"readChangeFeed": "true", "startingVersion": "9"}, "the changes begin with version 9, after the last version"),
        ({"readChangeFeed": "true", "startingVersion": "1", "endingVersion": "9"}, "has no version 9; existing versions: 1 to 5"),
        ({"readChangeFeed": "true", "startingVersion": "1", "version": "3"}, "readChangeFeed and version cannot be combined"),
        ({"readChangeFeed": "true", "startingVersion": "1", "limit": "3"}, "readChangeFeed and limit cannot be combined"),
        ({"startingVersion": "1"}, "the option 'startingVersion' needs readChangeFeed=true, or readStream"),
    ],
)
def test_options_that_describe_no_range_are_refused(place: str, options: dict[str, str], message: str) -> None:
    def read() -> None:
        source = LanceDataSource({"path": place, **options})
        schema = source.schema()
        assert isinstance(schema, StructType)
        source.reader(schema)

    with pytest.raises(Exception, match=message):
        read()


def test_rows_are_not_written_to_a_feed(spark: SparkSession, place: str) -> None:
    with pytest.raises(SPARK_ERRORS, match="applies only to reads"):
        spark.range(1).write.format("lance").option("readChangeFeed", "true").mode("append").save(place)


HAS_CHANGES = SPARK_VERSION >= (4, 2)
"""Spark has a change feed in its own words from version 4.2."""


@pytest.mark.skipif(not HAS_CHANGES, reason="Spark has CHANGES from version 4.2")
@pytest.mark.usefixtures("doors")
def test_changes_in_sparks_own_words(spark: SparkSession, place: str) -> None:
    """The bounds of Spark, with which updates are deletes and inserts unless they are asked for."""
    images = spark.read.option("startingVersion", "2").option("endingVersion", "4").option("computeUpdates", "true").changes("feeds.t")
    assert plain(rows(images)) == expected(place, 1, 4)
    table = "SELECT id, _change_type FROM feeds.t CHANGES"
    updated, deleted, inserted = [(2, "delete"), (2, "insert")], [(3, "delete")], [(5, "insert")]
    times = {row["_commit_version"]: row["_commit_timestamp"].isoformat() for row in Dataset.open(place).changes(0).to_table().to_pylist()}
    for clause, wanted in {
        "FROM VERSION 2 TO VERSION 4": updated + deleted + inserted,
        "FROM VERSION 2 EXCLUSIVE TO VERSION 4 EXCLUSIVE": deleted,
        "FROM VERSION 3": deleted + inserted,
        f"FROM TIMESTAMP '{times[3]}' TO TIMESTAMP '{times[4]}'": deleted + inserted,
        f"FROM TIMESTAMP '{times[3]}' EXCLUSIVE": inserted,
        "FROM VERSION 3 WITH (deduplicationMode = 'netChanges')": deleted + inserted,
    }.items():
        assert sorted(tuple(row) for row in spark.sql(f"{table} {clause}").collect()) == sorted(wanted), clause
    net = spark.read.option("startingVersion", "1").option("deduplicationMode", "netChanges").changes("feeds.t").where("id > 1")
    assert sorted(tuple(row) for row in net.select("id", "_change_type").collect()) == [(2, "insert"), (4, "insert"), (5, "insert")]


@pytest.mark.skipif(not HAS_CHANGES, reason="Spark has CHANGES from version 4.2")
@pytest.mark.usefixtures("doors")
@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("FROM VERSION 'first'", "CHANGES takes the numbers of versions, not first"),
        ("FROM VERSION 9", "the changes begin with version 9, after the last version"),
    ],
)
def test_changes_of_no_versions_are_refused(spark: SparkSession, clause: str, message: str) -> None:
    with pytest.raises(SPARK_ERRORS, match=message):
        spark.sql(f"SELECT * FROM feeds.t CHANGES {clause}").collect()


@pytest.mark.skipif(not HAS_CHANGES, reason="Spark has CHANGES from version 4.2")
@pytest.mark.usefixtures("doors")
def test_a_stream_of_changes_in_sparks_own_words(spark: SparkSession, tmp_path: Path) -> None:
    seen: list[tuple[Any, ...]] = []
    changes = spark.readStream.option("startingVersion", "2").option("computeUpdates", "true").changes("feeds.t")

    def collect(stream: DataFrame) -> None:
        writer = stream.writeStream.foreachBatch(lambda batch, _: seen.extend(map(tuple, batch.collect())))
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start().awaitTermination()

    collect(changes.select("id", "_change_type"))
    collect(changes.select("id", "_change_type"))
    assert sorted(seen) == [(2, "update_postimage"), (2, "update_preimage"), (3, "delete"), (5, "insert")]
    net = spark.readStream.option("startingVersion", "2").option("deduplicationMode", "netChanges").changes("feeds.t")
    with pytest.raises(StreamingQueryException, match="the option 'netChanges' does not apply to readStream"):
        net.writeStream.format("noop").start().awaitTermination()
