"""What users call with a session or a DataFrame in hand: `lance_spark.enable` and `lance_spark.write`."""

from __future__ import annotations

from typing import Literal

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from lance_spark.dataset import Dataset
from lance_spark.errors import TableAlreadyExistsError, TableNotFoundError
from lance_spark.spark.options import storage_options
from lance_spark.spark.planner.warning import warn
from lance_spark.spark.source import LanceDataSource


def enable(spark: SparkSession) -> None:
    """Register the format "lance" with the session and teach its planner to read only what a query needs. Calling it again does no harm.

    Where the package is installed Spark finds the format by itself; with --py-files it does not. Call it before anything else is asked of
    the session: then sessions made of it have all of this too, and joins prune what they read. See docs/planner.md.

    Examples:
        >>> import lance_spark
        >>> from pyspark.sql import SparkSession
        >>> spark = SparkSession.builder.getOrCreate()
        >>> lance_spark.enable(spark)
    """
    _teach(spark)
    try:
        spark.dataSource.register(LanceDataSource)
    except AnalysisException as e:
        # Spark 4.0 does not take a name twice, and has found ours where the package is installed.
        if e.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def _teach(spark: SparkSession) -> None:
    if is_remote():
        if "lancespark." not in (spark.conf.get("spark.sql.extensions", "") or ""):
            warn("this is Spark Connect, whose server needs the jar of `python -m lance_spark jar`")
        return
    # A client of Connect alone has no py4j to import this with.
    from lance_spark.spark.planner import install as planner

    planner.install(spark)


def write(
    df: DataFrame,
    uri: str,
    mode: Literal["error", "ignore", "append", "overwrite"] = "error",
    **options: str | int | bool,
) -> None:
    """Write a DataFrame as a Lance table, in any of Spark's modes; Spark itself refuses `error` and `ignore` for Python sources.

    `append` creates the table when there is none. With `error` that there is a table already raises TableAlreadyExistsError, with
    `ignore` nothing is written then. `options` are those of docs/options.md; names with dots go in as `**{"storage.endpoint": ...}`.

    Examples:
        >>> import lance_spark
        >>> lance_spark.write(spark.range(3), "/tmp/t.lance", commit_message="three rows")
        >>> lance_spark.write(spark.range(9), "/tmp/t.lance", mode="ignore")
        >>> spark.read.format("lance").load("/tmp/t.lance").count()
        3
    """
    if mode not in ("error", "ignore", "append", "overwrite"):
        raise ValueError(f"mode must be error, ignore, append or overwrite, not {mode!r}")
    enable(df.sparkSession)
    writer = df.write.format("lance").mode("overwrite" if mode == "overwrite" else "append").options(**options)
    if mode in ("error", "ignore"):
        try:
            version = Dataset.open(uri, storage_options=storage_options(options)).version
        except TableNotFoundError:
            # The check and the commit are two steps; with this option the second one fails if another writer comes in between.
            writer = writer.option("write_mode", "create")
        else:
            if mode == "error":
                raise TableAlreadyExistsError(f"there is a table at {uri} already (version {version})")
            return
    writer.save(uri)
