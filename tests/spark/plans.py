"""Inspection of Spark's plans and of the rows that they read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

Sql = Callable[[str], list[tuple[object, ...]]]
"""Runs a statement and gives its rows."""
SCAN = re.compile(r"BatchScan (lance|spark_catalog)")
"""The scan of a lance table: of a path, or of a table of the catalog `lance` or of the session catalog."""
PUSH_DOWN = "lance_spark.LancePlanner"
CATALOG_TABLES = "lance_spark.CatalogTables"
RULES = ["lance_spark.RowLevelCommands", CATALOG_TABLES, "lance_spark.DroppedTables", PUSH_DOWN, "lance_spark.ReplaceGuard"]


@contextmanager
def set_to(spark: SparkSession, values: dict[str, str]) -> Iterator[None]:
    """Set these settings of the session within the block."""
    before = {name: spark.conf.get(name, None) for name in values}
    try:
        for name, value in values.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


@contextmanager
def settings(spark: SparkSession, **values: str) -> Iterator[None]:
    """Change settings of the session within the block (names after "spark.sql.", with __ for dots)."""
    with set_to(spark, {"spark.sql." + key.replace("__", "."): value for key, value in values.items()}):
        yield


def physical(df: DataFrame) -> str:
    """The physical plan; the final one, if the frame has run."""
    text: str = df._jdf.queryExecution().executedPlan().toString()
    return text


def scans(df: DataFrame) -> list[str]:
    """The lines of the plan that scan a lance table."""
    return [line.strip(" :+-*()0123456789") for line in physical(df).splitlines() if SCAN.search(line)]


def rows_read(df: DataFrame) -> int:
    """Run the frame and count the rows that its lance scans returned. Adaptive execution hides the plan, so it must be off."""
    df.collect()
    total = 0
    leaves: Any = df._jdf.queryExecution().executedPlan().collectLeaves()
    for i in range(leaves.size()):
        leaf = leaves.apply(i)
        if SCAN.match(leaf.nodeName()):
            total += leaf.metrics().apply("numOutputRows").value()
    return total


def scan_statistics(df: DataFrame) -> tuple[int, int]:
    """The rows and bytes that the only scan of the frame reports."""
    statistics = df._jdf.queryExecution().optimizedPlan().collectLeaves().head().scan().estimateStatistics()
    return statistics.numRows().getAsLong(), statistics.sizeInBytes().getAsLong()
