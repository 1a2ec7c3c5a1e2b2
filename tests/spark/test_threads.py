"""Promises about plain threads of Python, in which no session is active: the format is found there, for reading and for writing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark import InheritableThread
from pyspark.sql import SparkSession

import lance_spark
from lance_spark import Dataset
from tests.spark.plans import Sql


def in_thread(kind: type[threading.Thread] | type[InheritableThread], work: Callable[[], None]) -> None:
    """Run the work in a thread, which must get to its end."""
    done: list[bool] = []

    def run() -> None:
        work()
        done.append(True)

    thread = kind(target=run)
    thread.start()
    thread.join()
    assert done == [True]


@pytest.mark.parametrize("kind", [threading.Thread, InheritableThread])
def test_writes_in_a_thread(spark: SparkSession, uri: str, kind: type[threading.Thread]) -> None:
    frame = spark.range(3)
    in_thread(kind, lambda: frame.write.format("lance").mode("append").save(uri))
    in_thread(kind, lambda: lance_spark.write(frame, uri, mode="append"))
    assert spark.read.format("lance").load(uri).count() == 6


def test_tables_of_the_catalog_in_a_thread(spark: SparkSession, sql: Sql) -> None:
    frame = spark.range(3)
    in_thread(threading.Thread, lambda: frame.write.format("lance").saveAsTable("planner.t"))
    in_thread(threading.Thread, lambda: frame.write.format("lance").mode("append").saveAsTable("planner.t"))
    in_thread(threading.Thread, lambda: frame.writeTo("planner.t").append())
    assert sql("SELECT count(*) FROM t") == [(9,)]


def test_a_pool_of_threads_writes_tables(spark: SparkSession, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda i: spark.range(i).write.format("lance").mode("append").save(f"{tmp_path}/{i}"), range(1, 4)))
    assert [Dataset.open(f"{tmp_path}/{i}").count_rows() for i in range(1, 4)] == [1, 2, 3]


def test_enabling_again_with_another_session(spark: SparkSession, uri: str) -> None:
    new = spark.newSession()
    lance_spark.enable(new)
    in_thread(threading.Thread, lambda: new.range(3).write.format("lance").mode("append").save(uri))
    assert new.read.format("lance").load(uri).count() == 3
