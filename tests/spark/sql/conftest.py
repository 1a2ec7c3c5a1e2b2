"""A Lance table with a Python model of its rows, for tests of row-level commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.spark.sql.tables import Table


@pytest.fixture(autouse=True)
def checked_plans(spark: SparkSession) -> Iterator[None]:
    """Spark checks each plan after each rule."""
    spark.conf.set("spark.sql.planChangeValidation", "true")
    yield
    spark.conf.unset("spark.sql.planChangeValidation")


@pytest.fixture
def table(spark: SparkSession, uri: str) -> Iterator[Table]:
    """The table `t` of the session catalog, with rows 0 to 9 in two fragments and with stable row ids."""
    yield Table.create(spark, uri, True)
    spark.sql("DROP TABLE IF EXISTS t")


@pytest.fixture(params=[False, True], ids=["addresses as ids", "stable ids"])
def either_table(request: pytest.FixtureRequest, spark: SparkSession, uri: str) -> Iterator[Table]:
    """The same table, with and without stable row ids."""
    yield Table.create(spark, uri, request.param)
    spark.sql("DROP TABLE IF EXISTS t")
