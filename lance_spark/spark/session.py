"""The functions of a session or a DataFrame: `lance_spark.enable` and `lance_spark.write`."""

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
    """Register the format "lance" with the session and install our planner rule, which reads only what queries need. Can be repeated.

    Spark finds the format by itself if the package is installed, but not with --py-files. Call it before any other use of
    the session: then sessions derived from it inherit all of this, and joins prune what they read. See docs/planner.md.

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
        # Spark 4.0 rejects a duplicate name, and has already registered ours if the package is installed.
        if e.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def _teach(spark: SparkSession) -> None:
    if is_remote():
        if "lancespark." not in (spark.conf.get("spark.sql.extensions", "") or ""):
            warn("this is Spark Connect, whose server needs the jar of `python -m lance_spark jar`")
        return
    # A pure Connect client has no py4j, which this import needs.
    from lance_spark.spark.planner import install as planner

    planner.install(spark)


def write(
    df: DataFrame,
    uri: str,
    mode: Literal["error", "ignore", "append", "overwrite"] = "error",
    **options: str | int | bool,
) -> None:
    """Write a DataFrame as a Lance table, in any of Spark's modes; Spark itself refuses `error` and `ignore` for Python sources.

    `append` creates the table if there is none. If the table exists, `error` raises TableAlreadyExistsError and
    `ignore` writes nothing. `options` are those of docs/options.md; pass names with dots as `**{"storage.endpoint": ...}`.

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
            # Another writer may create the table between the check and the commit; with this option the commit fails then.
            writer = writer.option("write_mode", "create")
        else:
            if mode == "error":
                raise TableAlreadyExistsError(f"a Lance table already exists at {uri} (version {version})")
            return
    writer.save(uri)
