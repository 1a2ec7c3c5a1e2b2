"""What is measured: each work says what every contestant runs for it. All read the same rows; the columns go to Spark's noop sink."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import lance
from pyspark.sql import DataFrame, SparkSession

from bench.data import Table

Run = Callable[[], object]


@dataclass(frozen=True)
class Work:
    """A name, and a run for each contestant that can do it."""

    name: str
    runs: dict[str, Run]


def consume(frame: DataFrame) -> None:
    """Have Spark produce every row and drop it."""
    frame.write.format("noop").mode("overwrite").save()


def scan(spark: SparkSession, table: Table, name: str, columns: list[str] | None = None, condition: str | None = None) -> Work:
    """Read columns of the rows that fulfil a condition: ours and pylance by their own options, Parquet by Spark's own push-down."""
    tasks = max(2, len(lance.dataset(table.lance).get_fragments()))

    def ours() -> None:
        frame = spark.read.format("lance").load(table.lance)
        frame = frame.where(condition) if condition else frame
        consume(frame.select(columns) if columns else frame)

    def by_option() -> None:
        reader = spark.read.format("lance")
        reader = reader.option("columns", ",".join(columns)) if columns else reader
        reader = reader.option("filter", condition) if condition else reader
        consume(reader.load(table.lance))

    def pylance() -> None:
        # Neither push-down reaches a Python source by itself, so this one reads all columns, as a user's would.
        frame = spark.read.format("pylance").load(table.lance)
        frame = frame.where(condition) if condition else frame
        consume(frame.select(columns) if columns else frame)

    def parquet() -> None:
        frame = spark.read.parquet(table.parquet)
        frame = frame.where(condition) if condition else frame
        consume(frame.select(columns) if columns else frame)

    def floor() -> None:
        consume(spark.read.format("floor").option("rows", table.rows).option("tasks", tasks).load(table.batch(columns)))

    runs: dict[str, Run] = {"ours": ours, "pylance": pylance, "parquet": parquet}
    if columns or condition:
        runs["ours, by option"] = by_option
    if not condition:
        runs["floor"] = floor
    return Work(name, runs)


def count(spark: SparkSession, table: Table) -> Work:
    """count(*) of the whole table."""
    return Work(
        f"count(*) of {table.name}",
        {
            "ours": lambda: spark.read.format("lance").load(table.lance).count(),
            "pylance": lambda: spark.read.format("pylance").load(table.lance).count(),
            "parquet": lambda: spark.read.parquet(table.parquet).count(),
        },
    )


def write(spark: SparkSession, table: Table) -> Work:
    """Write a table that Spark reads from Parquet."""

    def to(format: str) -> Run:
        def run() -> None:
            folder = tempfile.mkdtemp()
            spark.read.parquet(table.parquet).write.format(format).mode("append").save(str(Path(folder) / "t"))
            shutil.rmtree(folder)

        return run

    return Work(f"write {table.name}", {"ours": to("lance"), "pylance": to("pylance"), "parquet": to("parquet"), "floor": to("floor")})


def open_many(spark: SparkSession, table: Table) -> Work:
    """Open a table of many fragments and take its first row."""
    return Work(
        f"first row of {table.name}",
        {
            "ours": lambda: spark.read.format("lance").load(table.lance).limit(1).collect(),
            "pylance": lambda: spark.read.format("pylance").load(table.lance).limit(1).collect(),
            "parquet": lambda: spark.read.parquet(table.parquet).limit(1).collect(),
        },
    )
