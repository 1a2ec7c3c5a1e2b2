"""Our filters select the same rows as Spark's for the same text."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.predicate.conditions import CONDITIONS, ODD_CONDITIONS, ODD_TABLE, TABLE
from tests.spark.plans import settings


@pytest.mark.parametrize(("table", "conditions"), [(TABLE, CONDITIONS), (ODD_TABLE, ODD_CONDITIONS)], ids=["plain", "odd"])
def test_every_condition_selects_what_spark_selects(spark: SparkSession, table: pa.Table, conditions: list[tuple[str, list[int]]]) -> None:
    with settings(spark, session__timeZone="UTC"):
        # Not cached: the bounds that Spark keeps of cached columns leave NaN out, and lose its rows.
        assert not differences(spark.createDataFrame(table), conditions)


def differences(frame: DataFrame, conditions: list[tuple[str, list[int]]]) -> dict[str, Any]:
    """The conditions for which Spark selects other rows: its ids and the expected ones."""
    found = {}
    for sql, ids in conditions:
        got = sorted(row.id for row in frame.where(sql).select("id").collect())
        if got != ids:
            found[sql] = (got, ids)
    return found
