"""Fixtures for tests of tables in the session catalog, and of the compiled classes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.spark.plans import Sql
from tests.spark.processes import NEWEST, ROOT


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


@pytest.fixture(scope="session")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's classes: those of LANCE_SPARK_CLASSES, else compiled now, for which a JDK is needed."""
    given = os.environ.get("LANCE_SPARK_CLASSES")
    if given is not None:
        return Path(given)
    assert pyspark.__version__.startswith(f"{NEWEST}."), f"LANCE_SPARK_CLASSES must name a jar that was compiled with PySpark {NEWEST}"
    compiler = subprocess.run([ROOT / "scripts" / "javac"], check=True, capture_output=True, text=True).stdout.strip()
    out = tmp_path_factory.mktemp("classes") / "classes.jar"
    subprocess.run([sys.executable, ROOT / "scripts" / "classes.py", compiler, out], check=True)
    return out
