"""TPC-H: each query gives the rows that Spark's own Parquet reader gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from bench.data import tpch
from bench.tpch import QUERIES, TABLES
from tests.spark.columns import hands_over_columns, rows

SCALE = 0.01


def _use(spark: SparkSession, source: str, folder: Path) -> None:
    """Let the queries read the tables in `folder`."""
    for name in TABLES:
        spark.read.format(source).load(str(folder / f"{name}.{source}")).createOrReplaceTempView(name)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of TPC-H in Parquet."""
    made = tmp_path_factory.mktemp("tpch")
    for name in TABLES:
        tpch(made, name, SCALE)
    return made / f"sf{SCALE:g}"


@pytest.fixture(scope="module")
def answers(spark: SparkSession, tables: Path) -> dict[int, list[Row]]:
    """The rows that each query finds in the Parquet tables. Query 20 finds none in so little data."""
    _use(spark, "parquet", tables)
    found = {number: spark.sql(sql).collect() for number, sql in QUERIES.items()}
    assert {number for number, rows in found.items() if not rows} <= {20}
    return found


@pytest.fixture(scope="module")
def written(spark: SparkSession, tables: Path, answers: dict[int, list[Row]]) -> None:
    """The same tables, written by Spark in Lance, which the queries then read."""
    folder = tables / "written"
    for name in TABLES:
        spark.read.parquet(str(tables / f"{name}.parquet")).write.format("lance").mode("append").save(str(folder / f"{name}.lance"))
    _use(spark, "lance", folder)


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("number", QUERIES)
def test_a_query_gives_the_rows_of_parquet(spark: SparkSession, answers: dict[int, list[Row]], number: int) -> None:
    assert spark.sql(QUERIES[number]).collect() == answers[number]


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("number", [1, 3, 6, 14])
def test_a_query_gives_the_same_rows_if_scans_hand_over_rows(spark: SparkSession, answers: dict[int, list[Row]], number: int) -> None:
    with rows(spark):
        query = spark.sql(QUERIES[number])
        assert not hands_over_columns(query)
        assert query.collect() == answers[number]
    query = spark.sql(QUERIES[number])
    assert hands_over_columns(query)
    assert query.collect() == answers[number]
