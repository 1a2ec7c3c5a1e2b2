"""A table is dropped and made anew at its path while Spark holds it: an error says so, and the new table stays as it is."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark_session import SPARK_ERRORS
from tests.table.commit.test_same_table import VERSIONS, content, make

ANEW = "the table was dropped"
STATEMENTS = {
    "read": "SELECT * FROM held",
    "count": "SELECT count(*) FROM held",
    "insert": "INSERT INTO held VALUES (1, 'x')",
    "delete": "DELETE FROM held WHERE a % 2 = 0",
    "delete all": "DELETE FROM held",
    "update": "UPDATE held SET b = 'u' WHERE a % 2 = 0",
    "merge": "MERGE INTO held t USING (SELECT 100L AS a, 's' AS b) s ON t.a = s.a WHEN MATCHED THEN UPDATE SET *",
    "merge that inserts": "MERGE INTO held t USING (SELECT 1L AS a, 's' AS b) s ON t.a = s.a WHEN NOT MATCHED THEN INSERT *",
}


def anew(uri: str, versions: int, side: str = "ours") -> object:
    """Drop the table and make another one; returns all that is in it."""
    shutil.rmtree(uri)
    make(uri, versions, 100, side)
    return content(uri)


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_view_that_was_opened_before_is_of_the_dropped_table(
    name: str, spark: SparkSession, uri: str, load: Callable[..., DataFrame]
) -> None:
    number = list(STATEMENTS).index(name)
    make(uri, VERSIONS)
    load(uri).createOrReplaceTempView("held")
    expected = anew(uri, (1, VERSIONS, VERSIONS + 2)[number % 3], ("ours", "pylance")[number % 2])
    with pytest.raises(SPARK_ERRORS, match=ANEW):
        spark.sql(STATEMENTS[name]).collect()
    assert content(uri) == expected
    lance.dataset(uri).validate()


def test_a_query_that_was_planned_before_says_that_its_table_was_dropped(
    spark: SparkSession, uri: str, load: Callable[..., DataFrame]
) -> None:
    make(uri, VERSIONS)
    df = load(uri)
    assert len(df.collect()) == 2 * VERSIONS
    anew(uri, VERSIONS, "pylance")
    with pytest.raises(SPARK_ERRORS, match=ANEW):
        df.collect()


def test_a_catalog_names_the_table_that_is_there_now(spark: SparkSession, uri: str) -> None:
    make(uri, VERSIONS)
    spark.sql(f"CREATE TABLE named USING lance LOCATION '{uri}'")
    try:
        assert spark.sql("SELECT * FROM named").count() == 2 * VERSIONS
        anew(uri, 1, "pylance")
        spark.sql("DELETE FROM named WHERE a = 100")
        assert spark.sql("SELECT a FROM named").collect() == [(101,)]
        assert lance.dataset(uri).to_table()["a"].to_pylist() == [101]
    finally:
        spark.sql("DROP TABLE named")


@pytest.mark.parametrize("versions", [1, VERSIONS, VERSIONS + 2], ids=["fewer", "same", "more"])
def test_rows_of_a_slow_source_are_not_added_to_a_table_that_was_made_meanwhile(versions: int, spark: SparkSession, uri: str) -> None:
    make(uri, VERSIONS)
    other = f"{uri}.new"
    make(other, versions, 100, "pylance")
    expected = content(other)

    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        shutil.rmtree(uri)
        Path(other).rename(uri)
        yield from batches

    rows = spark.range(1).selectExpr("id AS a", "'x' AS b").coalesce(1).mapInArrow(slow, "a long, b string")
    with pytest.raises(SPARK_ERRORS, match=ANEW):
        rows.write.format("lance").mode("append").save(uri)
    assert content(uri) == expected
    lance.dataset(uri).validate()
