"""Operators of Spark over scans that hand over columns: UDFs, caches, joins, limits, failures. No batch is used after it is freed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark import InheritableThread
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import udf
from pyspark.sql.pandas.functions import pandas_udf

from lance_spark import Dataset
from tests.sample import others_slow
from tests.spark.columns import arrow_bytes, differences, hands_over_columns, rows
from tests.spark.plans import settings

ROWS = 20_000
HASH = "bit_xor(xxhash64(*))", "count(*)"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three files of many small batches: the option batch_size is 500."""
    folder = str(tmp_path_factory.mktemp("plans") / "t.lance")
    numbers = np.arange(ROWS)
    texts = pa.array([None if i % 11 == 0 else f"text {i * 7919 % 1000}" for i in range(ROWS)])
    lists = pa.array([None if i % 13 == 0 else [i, i + 1] for i in range(ROWS)])
    columns = {"id": numbers, "k": numbers % 17, "s": texts, "l": lists, "st": pa.StructArray.from_arrays([texts], ["s"])}
    Dataset.write(folder, pa.table(columns), max_rows_per_file=8000)
    return folder


@pytest.fixture
def table(spark: SparkSession, stored: str) -> DataFrame:
    return spark.read.format("lance").option("batch_size", 500).load(stored)


@pytest.fixture(autouse=True)
def no_allocator_keeps_bytes(spark: SparkSession) -> Iterator[None]:
    """After each test, Arrow has freed everything."""
    yield
    assert arrow_bytes(spark) == 0


def digest(df: DataFrame) -> list[Any]:
    return list(df.selectExpr(*HASH).collect()[0])


def in_pandas(column: str | Column) -> Column:
    def plus_one(x: pd.Series) -> pd.Series:
        return x + 1

    make: Any = pandas_udf
    result: Column = make(plus_one, "long")(column)
    return result


def in_python(column: str | Column, use_arrow: bool | None = None) -> Column:
    function: Callable[[str | Column], Column] = udf(lambda x: None if x is None else x + 1, "long", useArrow=use_arrow)
    return function(column)


def reversed_text(column: str) -> Column:
    function: Callable[[str | Column], Column] = udf(lambda x: None if x is None else x[::-1], "string", useArrow=True)
    return function(column)


def as_they_are(batches: Any) -> Any:
    yield from batches


UDFS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "pandas": lambda df: df.withColumn("u", in_pandas("id")),
    "pandas, then a filter": lambda df: df.withColumn("u", in_pandas("k")).where("u % 3 = 0"),
    "default": lambda df: df.withColumn("u", in_python("k")),
    "arrow": lambda df: df.withColumn("u", in_python("k", True)),
    "arrow, of text": lambda df: df.withColumn("u", reversed_text("s")),
    "pickled": lambda df: df.withColumn("u", in_python("k", False)),
    "chained": lambda df: df.withColumn("u", in_pandas(in_python("k", True))),
    "pickled after arrow": lambda df: df.withColumn("u", in_python(in_python("k", True), False)),
    "only the column of the function": lambda df: df.select(in_python("id", True).alias("u")),
    "mapInArrow": lambda df: df.mapInArrow(as_they_are, df.schema),
    "mapInPandas": lambda df: df.select("id", "s").mapInPandas(as_they_are, "id long, s string"),
    "grouped": lambda df: df.select("k", "id").groupBy("k").applyInPandas(lambda x: x, "k long, id long"),
}


@pytest.mark.parametrize("name", others_slow(UDFS, ["pandas", "pickled", "chained", "arrow, of text", "mapInArrow", "grouped"]))
def test_functions_in_python(spark: SparkSession, table: DataFrame, name: str) -> None:
    assert hands_over_columns(table)
    assert differences(spark, {name: lambda: digest(UDFS[name](table))}) == {}


def test_functions_in_python_without_generated_code(spark: SparkSession, table: DataFrame) -> None:
    with settings(spark, codegen__wholeStage="false"):
        works: dict[str, Callable[[], Any]] = {name: lambda name=name: digest(UDFS[name](table)) for name in ("pandas", "chained")}  # type: ignore[misc]
        assert differences(spark, works) == {}


def cached(df: DataFrame) -> list[Any]:
    kept = df.cache()
    try:
        return [digest(kept), digest(kept.where("k = 3")), kept.count()]
    finally:
        kept.unpersist()


PLANS: dict[str, Callable[[DataFrame], Any]] = {
    "cache": cached,
    "broadcast join": lambda df: digest(df.join(F.broadcast(df.select("id", F.col("s").alias("t")).where("k < 3")), "id")),
    "merge join": lambda df: digest(df.hint("merge").join(df.select("id", F.col("s").alias("t")), "id")),
    "sort": lambda df: df.orderBy("s", "id").limit(50).collect(),
    "sort of everything": lambda df: [row.id for row in df.orderBy(F.desc("s"), "id").select("id").collect()],
    "greatest texts": lambda df: df.selectExpr("max(s)", "min(s)", "max_by(l, id)", "max_by(st, id)", "first(s, true)").collect(),
    "window": lambda df: digest(df.selectExpr("id", "lag(s) OVER (PARTITION BY k ORDER BY id)", "max(s) OVER (PARTITION BY k)")),
    "coalesce": lambda df: digest(df.coalesce(1)),
    "repartition": lambda df: digest(df.repartition(3, "k")),
    "union": lambda df: digest(df.union(df)),
    "limit": lambda df: len(df.limit(7).collect()),
    "limit of a union": lambda df: len(df.union(df).limit(12_345).collect()),
    "limit after a function": lambda df: len(df.withColumn("u", in_python("k", True)).limit(7).collect()),
    "rdd": lambda df: df.rdd.map(lambda row: row.id).sum(),
    "iterator": lambda df: sum(row.id for row in df.toLocalIterator()),
    "arrow": lambda df: df.toArrow().equals(df.toArrow()) if hasattr(df, "toArrow") else None,
    "pandas": lambda df: int(pd.DataFrame(df.select("id", "s").toPandas())["id"].sum()),
    "checkpoint": lambda df: digest(df.localCheckpoint()),
    "count": lambda df: [df.count(), df.select("l").distinct().count()],
    "sample": lambda df: digest(df.sample(fraction=0.3, seed=5)),
}


REPEATED = ("sort of everything", "coalesce", "union", "limit", "sample", "pandas")
"""Whose parts are in other plans."""


@pytest.mark.parametrize("name", others_slow(PLANS, PLANS.keys() - REPEATED))
def test_operators(spark: SparkSession, table: DataFrame, name: str) -> None:
    assert differences(spark, {name: lambda: PLANS[name](table)}) == {}


@pytest.mark.parametrize(
    "name", others_slow(["merge join", "sort", "greatest texts", "window", "union", "limit"], ["merge join", "window"])
)
def test_operators_without_generated_code(spark: SparkSession, table: DataFrame, name: str) -> None:
    with settings(spark, codegen__wholeStage="false", codegen__factoryMode="NO_CODEGEN"):
        assert differences(spark, {name: lambda: PLANS[name](table)}) == {}


def test_a_task_that_fails_frees_its_batch(spark: SparkSession, table: DataFrame) -> None:
    with pytest.raises(PySparkException, match="too great"):
        table.selectExpr("s", "IF(id > 9000, raise_error('too great'), id)").collect()


def test_a_file_that_is_gone_is_the_same_error(spark: SparkSession, stored: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    copy = str(tmp_path_factory.mktemp("gone") / "t.lance")
    shutil.copytree(stored, copy)
    df = spark.read.format("lance").load(copy).select("id", "s")
    shutil.rmtree(f"{copy}/data")

    def error() -> str:
        with pytest.raises(PySparkException) as caught:
            df.collect()
        return type(caught.value).__name__ + str("FileNotFound" in str(caught.value))

    assert differences(spark, {"error": error}) == {}


def test_a_job_that_is_cancelled_frees_its_batches(spark: SparkSession, table: DataFrame, tmp_path: Path) -> None:
    reads = str(tmp_path / "reads")
    errors: list[str] = []

    def stuck(batches: Any) -> Any:
        import time

        for batch in batches:
            yield batch
            open(reads, "w").close()
            time.sleep(600)  # the job is cancelled long before

    def run() -> None:
        spark.sparkContext.setJobGroup("cancelled", "a job that is cancelled", interruptOnCancel=True)
        try:
            table.mapInArrow(stuck, table.schema).collect()
        except Exception as e:  # noqa: BLE001
            errors.append(str(e))

    thread = InheritableThread(target=run)
    thread.start()
    while thread.is_alive() and not os.path.exists(reads):
        thread.join(0.01)
    spark.sparkContext.cancelJobGroup("cancelled")
    thread.join()
    assert len(errors) == 1
    assert "cancelled" in errors[0].lower()


def test_a_script_that_reads_from_another_thread_when_its_task_ends(spark: SparkSession, table: DataFrame) -> None:
    table.createOrReplaceTempView("t")
    for _ in range(5):
        assert len(spark.sql("SELECT TRANSFORM(id, s) USING 'cat' AS (id STRING, s STRING) FROM t LIMIT 3").collect()) == 3
    whole = "SELECT TRANSFORM(id, s) USING 'cat' AS (id STRING, s STRING) FROM t"
    assert differences(spark, {"script": lambda: digest(spark.sql(whole))}) == {}


def test_columns_and_rows_in_turns(spark: SparkSession, table: DataFrame) -> None:
    expected = digest(table)
    with rows(spark):
        assert not hands_over_columns(table.select("*"))
        assert digest(table) == expected
    assert digest(table) == expected
