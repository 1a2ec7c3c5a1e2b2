"""Sessions that were stopped: what was made in them cannot be used any more, and says so."""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType
from pyspark.sql.utils import is_remote

from lance_spark.errors import InvalidOperationError


def is_stopped(spark: SparkSession) -> bool:
    """Whether the session, or the one that it was made from, was stopped in this process."""
    session: Any = spark
    if hasattr(session, "is_stopped"):  # of Spark Connect
        return bool(session.is_stopped)
    return getattr(session._sc, "_jsc", None) is None


def check_running(spark: SparkSession, what: str) -> None:
    """Raise InvalidOperationError if the session in which `what` was opened was stopped."""
    if is_stopped(spark):
        raise InvalidOperationError(f"{what}: the Spark session was stopped; open the table again in a new session")


def check_started() -> None:
    """Raise InvalidOperationError if no Spark runs in this process: it parses expressions, and types that are texts."""
    if not is_remote() and SparkContext._active_spark_context is None:
        raise InvalidOperationError("the Spark session was stopped; open the table again in a new session")


def named(given: str | DataType) -> DataType:
    """The type, which may be a text such as `array<int>`. Raises InvalidOperationError for a text after Spark was stopped."""
    if not isinstance(given, str):
        return given
    check_started()
    return DataType.fromDDL(given)
