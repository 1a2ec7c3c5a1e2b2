"""The public function `lance_spark.enable`.

Each session waits for it. So it imports nothing that reads or writes tables: the processes that do have it.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from lance_spark.spark.jvm.warning import warn
from lance_spark.spark.stopped import check_running


def enable(spark: SparkSession) -> None:
    """Register the format "lance" with the session and install the planner, so that queries read only what they need.

    SQL can then also change rows, see docs/sql.md. Sessions derived from this one inherit the planner. Repeated calls are harmless.
    Without this call, Spark finds the format if the package is installed, but not with --py-files. See
    docs/planner.md.

    Spark starts its Python workers with this Python, unless PYSPARK_PYTHON, spark.pyspark.python or a `python3` with this package says
    otherwise. Raises InvalidOptionError if these name a Python with which queries would fail.

    Examples:
        >>> import lance_spark
        >>> from pyspark.sql import SparkSession
        >>> spark = SparkSession.builder.getOrCreate()
        >>> lance_spark.enable(spark)
    """
    if not hasattr(spark, "dataSource"):
        raise TypeError(f"spark must be a SparkSession, not {spark!r}")
    check_running(spark, "lance_spark.enable")
    if is_remote():
        _enable_client(spark)
    else:
        _enable_driver(spark)


def _enable_client(spark: SparkSession) -> None:
    from lance_spark.spark.source import LanceDataSource

    if "lancespark." not in (spark.conf.get("spark.sql.extensions", "") or ""):
        warn("with Spark Connect, install the jar of `python -m lance_spark jar` on the server")
    spark.dataSource.register(LanceDataSource)


def _enable_driver(spark: SparkSession) -> None:
    # A pure Connect client lacks the SparkContext and py4j, which these modules import.
    from lance_spark.spark.jvm import install as planner
    from lance_spark.spark.workers import worker_python

    worker_python.settle_python(spark.sparkContext)
    if planner.install(spark):
        return
    from lance_spark.spark.source import LanceDataSource

    worker_python.register(spark, LanceDataSource)
