"""The workloads, with a run for each contestant. All contestants read the same rows, and open the table for each run."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import lance
import pandas as pd
from pyspark.sql import DataFrame, SparkSession, functions

from bench.data import Table
from bench.tpch import QUERIES

Run = Callable[[], object]

FORMATS = {"ours": "lance", "pylance": "pylance", "parquet": "parquet"}

JOIN = """SELECT count(*), sum(l_extendedprice) FROM lineitem JOIN part ON l_partkey = p_partkey
    WHERE p_brand = 'Brand#23' AND p_container = 'MED BOX'"""
TOP = "SELECT * FROM orders ORDER BY o_totalprice DESC, o_orderkey LIMIT 10"
GROUPS = "SELECT {0}, count(*), sum(n), max(n) FROM {1} GROUP BY {0}"


@dataclass(frozen=True)
class Work:
    """A workload: a name, and a run for each contestant that supports it."""

    name: str
    runs: dict[str, Run]


def load(spark: SparkSession, contestant: str, table: Table) -> DataFrame:
    """Open the table with this contestant."""
    return spark.read.format(FORMATS[contestant]).load(table.parquet if contestant == "parquet" else table.lance)


def consume(frame: DataFrame) -> None:
    """Let Spark produce every row and discard it."""
    frame.write.format("noop").mode("overwrite").save()


def scan(spark: SparkSession, table: Table, name: str, columns: list[str] | None = None, condition: str | None = None) -> Work:
    """Read columns of the rows that satisfy a condition. Without a condition, the floor is measured, too."""
    tasks = max(2, len(lance.dataset(table.lance).get_fragments()))

    def of(contestant: str) -> Run:
        def run() -> None:
            frame = load(spark, contestant, table)
            frame = frame.where(condition) if condition else frame
            consume(frame.select(columns) if columns else frame)

        return run

    def floor() -> None:
        consume(spark.read.format("floor").option("rows", table.rows).option("tasks", tasks).load(table.batch(columns)))

    return Work(name, {c: of(c) for c in FORMATS} | ({} if condition else {"floor": floor}))


def count(spark: SparkSession, table: Table) -> Work:
    """count(*) of the whole table."""
    return Work(f"count(*) of {table.name}", {c: lambda c=c: load(spark, c, table).count() for c in FORMATS})  # type: ignore[misc]


def query(spark: SparkSession, name: str, sql: str, tables: Sequence[Table]) -> Work:
    """A SQL query on these tables."""

    def of(contestant: str) -> Run:
        def run() -> None:
            for table in tables:
                load(spark, contestant, table).createOrReplaceTempView(table.name)
            spark.sql(sql).collect()

        return run

    return Work(name, {c: of(c) for c in FORMATS})


def tpch(spark: SparkSession, tables: Sequence[Table]) -> Work:
    """All queries of TPC-H, one after the other; without pylance, whose source reads all columns of all rows each time."""

    def of(contestant: str) -> Run:
        def run() -> None:
            for table in tables:
                load(spark, contestant, table).createOrReplaceTempView(table.name)
            for sql in QUERIES.values():
                spark.sql(sql).collect()

        return run

    return Work("TPC-H, all 22 queries", {c: of(c) for c in ("ours", "parquet")})


def group_by(spark: SparkSession, name: str, key: str, table: Table) -> Work:
    """Aggregates by a key; Spark produces every group and discards it."""

    def of(contestant: str) -> Run:
        def run() -> None:
            load(spark, contestant, table).createOrReplaceTempView(table.name)
            consume(spark.sql(GROUPS.format(key, table.name)))

        return run

    return Work(name, {c: of(c) for c in FORMATS})


def udf(spark: SparkSession, table: Table, name: str, columnar: bool) -> Work:
    """A pandas UDF over a column, with columns or rows handed over by our scan."""

    def plus_one(values: pd.Series) -> pd.Series:
        return values + 1

    function = functions.pandas_udf(plus_one, "long")  # type: ignore[attr-defined]

    def of(contestant: str) -> Run:
        def run() -> None:
            spark.conf.set("spark.lance.columnar", str(columnar).lower())
            consume(load(spark, contestant, table).select(function("l_orderkey")))
            spark.conf.unset("spark.lance.columnar")

        return run

    return Work(name, {c: of(c) for c in FORMATS})


def write(spark: SparkSession, table: Table) -> Work:
    """Write the rows of a Parquet table."""

    def to(format: str) -> Run:
        def run() -> None:
            folder = tempfile.mkdtemp()
            spark.read.parquet(table.parquet).write.format(format).mode("append").save(str(Path(folder) / "t"))
            shutil.rmtree(folder)

        return run

    return Work(f"write {table.name}", {c: to(f) for c, f in FORMATS.items()} | {"floor": to("floor")})


def append(spark: SparkSession, table: Table) -> Work:
    """Append one row to an existing table."""
    folder = Path(tempfile.mkdtemp())
    row = spark.read.parquet(table.parquet).limit(1).toPandas()
    one = spark.createDataFrame(row, spark.read.parquet(table.parquet).schema).coalesce(1).cache()

    def to(contestant: str, format: str) -> Run:
        path = str(folder / contestant)
        one.write.format(format).mode("append").save(path)
        return lambda: one.write.format(format).mode("append").save(path)

    return Work("append of one row", {c: to(c, f) for c, f in FORMATS.items()})


def open_many(spark: SparkSession, table: Table) -> Work:
    """Open a table with many fragments and read its first row."""
    return Work(f"first row of {table.name}", {c: lambda c=c: load(spark, c, table).limit(1).collect() for c in FORMATS})  # type: ignore[misc]


def imports() -> Work:
    """Start a Python with what a worker has imported when it reads its first row."""
    modules = {"ours": "lance_spark.spark.daemon", "pylance": "pyarrow, lance", "floor": "pyarrow"}

    def of(names: str) -> Run:
        return lambda: subprocess.run([sys.executable, "-c", f"import pyspark.daemon, pyspark.worker, {names}"], check=True)

    return Work("imports of a task", {contestant: of(names) for contestant, names in modules.items()})
