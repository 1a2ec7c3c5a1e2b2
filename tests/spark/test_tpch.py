"""TPC-H: each query gives the rows that Spark's own Parquet reader gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from bench.data import tpch
from bench.tpch import QUERIES, TABLES

SCALE = 0.01


def answers(spark: SparkSession, source: str, folder: Path, third: int) -> dict[int, list[Row]]:
    """The rows that every third query finds in the tables in `folder`."""
    for name in TABLES:
        spark.read.format(source).load(str(folder / f"{name}.{source}")).createOrReplaceTempView(name)
    return {number: spark.sql(sql).collect() for number, sql in QUERIES.items() if number % 3 == third}


@pytest.mark.slow
@pytest.mark.parametrize("third", range(3))
def test_every_query_gives_the_rows_of_parquet(third: int, spark: SparkSession, tmp_path: Path) -> None:
    """The Lance tables are written by Spark. Query 20 finds no rows in so little data."""
    for name in TABLES:
        table = tpch(tmp_path, name, SCALE)
        spark.read.parquet(table.parquet).write.format("lance").mode("append").save(str(tmp_path / f"{name}.lance"))
    expected = answers(spark, "parquet", table.folder, third)
    assert {number for number, rows in expected.items() if not rows} <= {20}
    found = answers(spark, "lance", tmp_path, third)
    assert {number for number, rows in found.items() if rows != expected[number]} == set()
