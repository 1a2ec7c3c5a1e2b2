"""A real Spark session for tests, and helpers to read and write with it."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import lance_spark

ROOT = Path(__file__).parents[1]
SPARK_VERSION = tuple(map(int, pyspark.__version__.split(".")[:2]))
"""The version of Spark without its last number."""
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""Options of a JVM that runs few and small queries: compiling them for speed takes longer than they run.

The usual cache of code, 48 MB, would be full after some hundred tests, and the JVM would drop code and compile it again.
"""
CLASS_ARCHIVE = Path(sys.prefix) / "spark.jsa"
"""Spark's classes as `tests.class_archive` has written them, if it has."""
if CLASS_ARCHIVE.exists():
    QUICK_JAVA += f" -XX:SharedArchiveFile={CLASS_ARCHIVE} -Xlog:cds=off -Xlog:cds+dynamic=off"
SPARK_ERRORS = (PySparkException, Py4JJavaError)
"""What a failed job or command raises in Python: an error that Spark has a class for, or one of the JVM as it is."""


def worker_environment() -> dict[str, str]:
    """Environment variables with which Spark's workers use this Python and this package."""
    return {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """An enabled session with local[2] and a time zone other than UTC, to reveal mistakes with zones."""
    os.environ.update(worker_environment())
    builder = SparkSession.builder.master("local[2]").appName("tests")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "OFF",
        "spark.driver.extraJavaOptions": f"-Dlancespark.columnar.checked=true {QUICK_JAVA}",
        # A task that fails ends its worker. The next one is forked with its imports, which take longer than most tasks. Sessions in other
        # processes (tests/spark/processes.py) have Spark's own daemon.
        "spark.python.daemon.module": "lance_spark.spark.daemon",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        # pylance warns of every fork; starting the JVM is one, and its child runs no Python.
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
    lance_spark.enable(session)
    yield session
    session.stop()


@pytest.fixture
def load(spark: SparkSession) -> Callable[..., DataFrame]:
    """`load(uri, option=value, ...)` reads a table."""

    def load(uri: str | Path, **options: object) -> DataFrame:
        return spark.read.format("lance").options(**{k: str(v) for k, v in options.items()}).load(str(uri))

    return load


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """The location of a table that does not exist yet."""
    return str(tmp_path / "table.lance")
