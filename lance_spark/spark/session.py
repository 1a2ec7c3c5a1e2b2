"""The public functions for sessions and DataFrames beside `enable`: `lance_spark.catalog`, `write` and `last_change`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from os import PathLike, fspath
from typing import Literal

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from lance_spark.display.words import nearest as did_you_mean
from lance_spark.errors import (
    InvalidOptionError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedFeatureError,
    check_type,
)
from lance_spark.spark.catalog_settings import Catalog
from lance_spark.spark.enable import enable
from lance_spark.spark.last_change import figures_of
from lance_spark.spark.options.known import parse_options
from lance_spark.spark.options.read import ReadOptions
from lance_spark.spark.protocol import Command
from lance_spark.spark.read.opened import open_version
from lance_spark.spark.stopped import check_running
from lance_spark.storage.location import absolute
from lance_spark.table.changes.row_changes import RowChanges


def catalog(
    spark: SparkSession,
    name: str = "lance",
    *,
    root: str | None = None,
    namespace: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    **properties: str | int | bool,
) -> None:
    """Add a catalog of lance tables to the session: SQL and DataFrames name its tables `lance.namespace.table`.

    `root` is the path or URI of a directory namespace. Otherwise, `namespace` and `properties` are those of `lance_spark.namespace`.
    `properties` may also be `single_level_ns`, and options of new tables such as `stable_row_ids`, which apply to all that are created.
    Without both, the catalog only has tables that are named by their path: lance.`/data/t.lance`. A catalog of this name is replaced.
    Sessions that are made from this one have it, too: the one in which a stream runs `foreachBatch`, and later ones of `newSession`. See
    docs/catalog.md. Raises InvalidOptionError for unknown properties, and UnsupportedFeatureError with Spark Connect and other versions of
    Spark.

    Examples:
        >>> import lance_spark
        >>> lance_spark.catalog(spark, "lance", root="/tmp/lake")
        >>> spark.sql("CREATE TABLE lance.points AS SELECT id, id / 2 AS v FROM range(3)").collect()
        []
        >>> spark.table("lance.points").count()
        3
    """
    if not isinstance(name, str) or not re.fullmatch(r"\w+", name):
        raise ValueError(f"the name of a catalog must be a word, such as lance, not {name!r}")
    given: dict[str, object] = {"root": None if root is None else absolute(root), "namespace": namespace, **properties}
    texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in given.items() if value is not None}
    settings = {**texts, **{f"storage.{key}": value for key, value in (storage_options or {}).items()}}
    if root is not None or namespace is not None:
        Catalog(settings).check()
    elif properties:
        name = min(properties)
        hint = did_you_mean(name, ("root", "namespace", "storage_options"))
        raise InvalidOptionError(f"unknown argument {name!r}{hint}; properties of a namespace need the argument root or namespace")
    enable(spark)
    if is_remote():
        raise UnsupportedFeatureError(
            f"with Spark Connect, set spark.sql.catalog.{name}=lancespark.LanceCatalog on the server, which needs the jar (docs/planner.md)"
        )
    from lance_spark.spark.jvm import install as planner

    planner.add_catalog(spark, name, Catalog(settings).configured)


def write(
    df: DataFrame,
    uri: str,
    mode: Literal["error", "ignore", "append", "overwrite"] = "error",
    **options: str | int | bool,
) -> None:
    """Write a DataFrame to a Lance table. This supports all modes; `df.write` rejects `error` and `ignore` for Python sources.

    `append` creates the table if it does not exist. If it exists, `error` raises TableAlreadyExistsError and `ignore` writes nothing.
    `options` are described in docs/options.md; pass names with dots as `**{"storage.endpoint": ...}`.

    Examples:
        >>> import lance_spark
        >>> lance_spark.write(spark.range(3), "/tmp/t.lance", commit_message="three rows")
        >>> lance_spark.write(spark.range(9), "/tmp/t.lance", mode="ignore")
        >>> spark.read.format("lance").load("/tmp/t.lance").count()
        3
    """
    if mode not in ("error", "ignore", "append", "overwrite"):
        raise ValueError(f"mode must be error, ignore, append or overwrite, not {mode!r}")
    check_type("df", df, DataFrame, "a DataFrame")
    check_type("uri", uri, (str, PathLike), "a path or URI")
    enable(df.sparkSession)
    uri = absolute(fspath(uri))
    writer = df.write.format("lance").mode("overwrite" if mode == "overwrite" else "append").options(**options)
    if mode in ("error", "ignore"):
        try:
            there = open_version(parse_options(ReadOptions, {**{name: str(value) for name, value in options.items()}, "path": uri}))
        except TableNotFoundError:
            # If another writer creates the table before the commit, this option makes the commit fail.
            writer = writer.option("write_mode", "create")
        else:
            if mode == "error":
                raise TableAlreadyExistsError(
                    f"a Lance table already exists at {there.shape.root.uri} (version {there.shape.version}); use another mode or path"
                )
            return
    writer.save(uri)


def last_change(spark: SparkSession) -> RowChanges | None:
    """The result of the last DELETE, UPDATE, MERGE or TRUNCATE of a Lance table by SQL in this session; None if there was none.

    This is the value that the methods of LanceTable return: the version, and the numbers of rows. Spark itself returns no rows for these
    commands. The numbers are read from the transaction. Raises VersionNotFoundError if the version has been removed since, and
    UnsupportedFeatureError with Spark Connect.

    Examples:
        >>> import lance_spark
        >>> lance_spark.write(spark.range(9), "/tmp/nine.lance")
        >>> spark.read.format("lance").load("/tmp/nine.lance").createOrReplaceTempView("nine")
        >>> _ = spark.sql("DELETE FROM nine WHERE id > 5")
        >>> lance_spark.last_change(spark).num_deleted_rows
        3
    """
    if is_remote():
        raise UnsupportedFeatureError("a Spark Connect client does not know the last change; read the table's history")
    check_running(spark, "lance_spark.last_change")
    from lance_spark.spark.jvm import install as planner  # needs py4j, which a pure Connect client lacks

    found = planner.last_change(spark)
    if found is None:
        return None
    text, options = found
    return figures_of(Command(**json.loads(text)), parse_options(ReadOptions, options))


def run_statement(statement: str, root: str | None, rows: int) -> pa.Table:
    """Start Spark, run a statement of SQL with the catalog `lance`, see `catalog`, and stop Spark; at most so many rows of the result.

    Raises InvalidOptionError with the first line of what Spark says of a wrong statement.
    """
    builder = SparkSession.builder.appName("lance-spark sql").config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    try:
        spark.sparkContext.setLogLevel("ERROR")
        catalog(spark, "lance", root=root)
        return spark.sql(statement).limit(rows).toArrow()
    except PySparkException as e:
        raise InvalidOptionError(str(e).strip().partition("\n")[0]) from e
    finally:
        spark.stop()
