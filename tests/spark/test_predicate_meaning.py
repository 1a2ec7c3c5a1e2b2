"""Our filters select the same rows as Spark's for the same text."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.predicate.conditions import CONDITIONS, TABLE


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> Any:
    previous = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield spark.createDataFrame(TABLE)  # not cached: the bounds that Spark keeps of cached columns leave NaN out, and lose its rows
    spark.conf.set("spark.sql.session.timeZone", str(previous))


def test_every_condition_selects_what_spark_selects(frame: Any) -> None:
    differences = {}
    for sql, ids in CONDITIONS:
        got = sorted(row.id for row in frame.where(sql).select("id").collect())
        if got != ids:
            differences[sql] = (got, ids)
    assert not differences
