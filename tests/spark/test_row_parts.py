"""Rows that are written go to the Python worker in parts of bounded size, which the planner's classes make."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset, write
from lance_spark.spark.jvm import install
from tests.spark.columns import rows as handed_over_as_rows


def parts(spark: SparkSession, query: str, limit: int) -> list[int]:
    """The numbers of rows of the parts of a query's rows."""
    gateway: Any = spark.sparkContext._gateway
    jvm: Any = spark._jvm
    plan = spark.sql(query)._jdf.queryExecution().executedPlan()
    arguments = gateway.new_array(jvm.java.lang.Object, 3)
    arguments[0] = jvm.scala.jdk.javaapi.CollectionConverters.asJava(plan.executeToIterator())
    arguments[1] = getattr(jvm.org.apache.spark, "TaskContext$").__getattr__("MODULE$").empty()
    arguments[2] = jvm.java.lang.Long(limit)
    constructor = install._loader(spark).loadClass("lancespark.columnar.RowParts").getDeclaredConstructors()[0]
    constructor.setAccessible(True)
    found = []
    all_parts = constructor.newInstance(arguments)
    while all_parts.hasNext():
        part, count = all_parts.next(), 0
        while part.hasNext():
            part.next()
            count += 1
        found.append(count)
    return found


def test_a_part_ends_with_the_row_that_reaches_the_limit(spark: SparkSession) -> None:
    assert parts(spark, "SELECT id, repeat('a', 1000) FROM range(0, 10, 1, 1)", 4000) == [4, 4, 2]
    assert parts(spark, "SELECT repeat('a', 1000) FROM range(0, 3, 1, 1)", 10) == [1, 1, 1]
    assert parts(spark, "SELECT id FROM range(0, 1000, 1, 1)", 1_000_000) == [1000]
    assert parts(spark, "SELECT id FROM range(0, 5, 1, 1) WHERE id < 0", 10) == []


@pytest.mark.parametrize("columnar", [True, False])
def test_rows_above_the_limit_of_a_batch_are_written(spark: SparkSession, uri: str, columnar: bool) -> None:
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", "20000")
    try:
        rows = spark.sql("SELECT id, repeat(cast(id AS string), 3000) AS s, array(id, NULL) AS a FROM range(0, 100, 1, 2)")
        if columnar:
            write(rows, uri)
        else:
            with handed_over_as_rows(spark):
                write(rows, uri)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxBytesPerBatch")
    expected = [{"id": i, "s": str(i) * 3000, "a": [i, None]} for i in range(100)]
    assert sorted(Dataset.open(uri).scan().to_table().to_pylist(), key=lambda row: int(row["id"])) == expected
