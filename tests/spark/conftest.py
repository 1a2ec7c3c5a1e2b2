"""Fixtures for tests of tables in the session catalog."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.spark.plans import Sql


@pytest.fixture(scope="module", autouse=True)
def no_views_stay() -> Iterator[None]:
    """Drop the temporary views of a module's tests: tests of other modules share the session."""
    yield
    spark = SparkSession.getActiveSession()
    if spark is not None:
        for table in spark.catalog.listTables():
            if table.isTemporary:
                spark.catalog.dropTempView(table.name)


@pytest.fixture
def sql(spark: SparkSession) -> Iterator[Sql]:
    """Runs statements in a separate database, which is dropped afterwards."""
    spark.sql("CREATE DATABASE planner")
    spark.sql("USE planner")
    yield lambda statement: [tuple(row) for row in spark.sql(statement).collect()]
    spark.sql("USE default")
    spark.sql("DROP DATABASE planner CASCADE")
