"""The text of a path or LOCATION is the folder: spaces, percent signs and other characters are neither encoded nor decoded on the way."""

from __future__ import annotations

import boto3
import pytest
from pyspark.sql import SparkSession

import lance_spark
from lance_spark import Dataset, LanceTable
from tests.spark.catalog.lakes import Lake
from tests.spark.plans import Sql

NAMES = ("a b%20c+d#e?f=1&g", "ü%2F語")
"""Names of folders, each of which is another name if it is decoded once too often."""


@pytest.fixture(params=NAMES)
def folder(request: pytest.FixtureRequest, own: Lake) -> str:
    """A table with the rows 0, 1, 2 in a folder with an odd name, in the root of the catalog `lance`."""
    path = f"{own.root}/{request.param}"
    lance_spark.write(own.spark.range(3), path, "error")
    return path


def test_paths_are_taken_as_they_are(own: Lake, folder: str) -> None:
    own.spark.range(3, 5).write.format("lance").mode("append").save(folder)
    own.spark.sql(f"INSERT INTO lance.`{folder}` VALUES (5)")
    LanceTable.forPath(own.spark, folder).delete("id = 0")
    own.spark.sql(f"CREATE TEMPORARY VIEW odd USING lance OPTIONS (path '{folder}')")
    assert own.sql("SELECT sum(id) FROM odd") == own.sql(f"SELECT sum(id) FROM lance.`{folder}`") == [(15,)]
    assert Dataset.open(folder).version == 4
    own.spark.catalog.dropTempView("odd")


def test_a_location_with_a_table_is_taken_as_it_is(own: Lake, sql: Sql, folder: str) -> None:
    """Without columns, they are those of the table that is there."""
    for number, name in enumerate(("t", "lance.ns.t")):
        sql(f"CREATE TABLE {name} USING lance LOCATION '{folder}'")
        sql(f"INSERT INTO {name} VALUES (7)")
        LanceTable.forName(own.spark, name).update("id = 7", {"id": "8"})
        assert sql(f"SELECT max(id) FROM {name}") == [(8,)]
        assert Dataset.open(folder).count_rows("id = 8") == number + 1
        sql(f"DROP TABLE {name}")
    sql(f"CREATE TABLE t USING lance OPTIONS (path '{folder}')")
    assert sql("SELECT count(*) FROM t") == [(5,)]


def test_new_tables_are_made_at_the_location(own: Lake, sql: Sql, folder: str) -> None:
    for name in ("t", "lance.ns.t"):
        empty, filled = f"{folder} of {name}", f"{folder} filled, of {name}"
        sql(f"CREATE TABLE {name} (id BIGINT) USING lance LOCATION '{empty}'")
        sql(f"INSERT INTO {name} VALUES (7)")
        assert Dataset.open(empty).to_table().to_pylist() == [{"id": 7}]
        sql(f"DROP TABLE {name}")
        sql(f"CREATE TABLE {name} USING lance LOCATION '{filled}' AS SELECT 8 AS id")
        assert LanceTable.forName(own.spark, name).toDF().collect() == [(8,)]
        sql(f"CREATE OR REPLACE TABLE {name} USING lance LOCATION '{filled}' AS SELECT 9 AS id")
        assert Dataset.open(filled).to_table().to_pylist() == [{"id": 9}]
        sql(f"DROP TABLE {name}")


def test_keys_in_s3(spark: SparkSession, sql: Sql, s3_server: str) -> None:
    """The session catalog keeps locations percent-encoded, and these are no names of objects."""
    storage = {"endpoint": s3_server, "access_key_id": "a", "secret_access_key": "b", "region": "us-east-1", "allow_http": "true"}
    options = {f"storage.{key}": value for key, value in storage.items()}
    given = ", ".join(f"'{key}' '{value}'" for key, value in options.items())
    for name in NAMES:
        uri = f"s3://tables/odd/{name}"
        sql(f"CREATE TABLE t (id BIGINT) USING lance OPTIONS ({given}) LOCATION '{uri}'")
        sql("INSERT INTO t VALUES (7)")
        assert LanceTable.forName(spark, "t").toDF().collect() == [(7,)]
        sql("DROP TABLE t")
        sql(f"CREATE TABLE t USING lance OPTIONS ({given}) LOCATION '{uri}'")
        assert sql("SELECT id FROM t") == [(7,)]
        spark.range(2).write.format("lance").options(**options, path=f"{uri}.2").saveAsTable("saved")
        assert sql("SELECT count(*) FROM saved") == [(2,)]  # with the storage options of the write
        spark.range(3).write.format("lance").options(**options, path=f"{uri}.2").mode("overwrite").saveAsTable("saved")
        assert sql("SELECT count(*) FROM saved") == [(3,)]
        sql("DROP TABLE t")
        sql("DROP TABLE saved")
    listed = boto3.client("s3", "us-east-1", endpoint_url=s3_server, aws_access_key_id="a", aws_secret_access_key="b").list_objects_v2(
        Bucket="tables", Prefix="odd/", Delimiter="/"
    )
    assert {prefix["Prefix"] for prefix in listed["CommonPrefixes"]} == {f"odd/{name}{end}/" for name in NAMES for end in ("", ".2")}
