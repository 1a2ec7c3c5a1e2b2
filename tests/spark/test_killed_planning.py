"""Processes that plan and commit on the driver are killed at any moment: reads succeed, and each change is made once."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from lance_spark import Dataset
from tests.spark.processes import forked

Load = Callable[..., DataFrame]
DAEMON = "lance_spark.spark.planning_daemon"
KILLS = 3
"""Fewer than the tries of a request."""


def kill() -> int:
    """Kill the processes that wait for requests or answer them, and not the one that forks them."""
    killed = 0
    for pid in forked(DAEMON):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed


@contextlib.contextmanager
def kills() -> Iterator[None]:
    """Kill some of the processes that answer within."""
    over = threading.Event()

    def run() -> None:
        killed, pauses = 0, random.Random(7)
        while killed < KILLS and not over.wait(pauses.uniform(0.02, 0.3)):
            killed += kill()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> str:
    lance_spark.catalog(spark, "killed", root=str(tmp_path))
    uri = str(tmp_path / "t.lance")
    Dataset.write(uri, pa.table({"id": range(10), "v": [0] * 10}), max_rows_per_file=5)
    return uri


CHANGES: dict[str, tuple[Callable[[SparkSession, str], object], int, int]] = {
    "append": (lambda spark, uri: spark.range(3).selectExpr("id", "id AS v").write.format("lance").mode("append").save(uri), 13, 1),
    "UPDATE": (lambda spark, uri: spark.sql("UPDATE killed.t SET v = v + 1").collect(), 10, 1),
    "DELETE": (lambda spark, uri: spark.sql("DELETE FROM killed.t WHERE id < 3").collect(), 7, 1),
    "ALTER": (lambda spark, uri: spark.sql("ALTER TABLE killed.t ADD COLUMNS (w INT)").collect(), 10, 1),
}


@pytest.mark.matrix
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("during", [False, True], ids=["before", "during"])
def test_a_change_is_made_once(spark: SparkSession, table: str, change: str, during: bool) -> None:
    run, rows, versions = CHANGES[change]
    kill()
    with kills() if during else contextlib.nullcontext():
        run(spark, table)
    latest = Dataset.open(table)
    assert (latest.count_rows(), latest.version) == (rows, 1 + versions)


def test_a_read_gets_another_process(load: Load, table: str) -> None:
    assert load(table).count() == 10
    for _ in range(3):
        kill()
        assert load(table).where("id < 3").count() == 3


STATEMENTS: dict[str, tuple[str, dict[str, int]]] = {
    "OPTIMIZE": ("OPTIMIZE killed.t", {"t": 10}),
    "CREATE": ("CREATE TABLE killed.new (id INT)", {"t": 10, "new": 0}),
    "CALL": ("CALL killed.system.compact('t')", {"t": 10}),
    "CREATE AS SELECT": ("CREATE TABLE killed.new AS SELECT * FROM killed.t", {"t": 10, "new": 10}),
    "CREATE OR REPLACE": ("CREATE OR REPLACE TABLE killed.t AS SELECT id FROM range(3)", {"t": 3}),
    "DROP": ("DROP TABLE killed.t", {}),
    "RENAME": ("ALTER TABLE killed.t RENAME TO killed.other", {"other": 10}),
    "CREATE NAMESPACE": ("CREATE NAMESPACE killed.space", {"t": 10}),
}
"""What the catalog has after a statement: the rows of each table."""
IN_PLAIN_SUITE = ("OPTIMIZE", "CREATE")


CELLS = [pytest.param(name, marks=() if name in IN_PLAIN_SUITE else pytest.mark.slow) for name in STATEMENTS]


@pytest.mark.parametrize("statement", CELLS)
def test_a_statement_of_the_catalog_is_answered_once(spark: SparkSession, table: str, statement: str) -> None:
    text, expected = STATEMENTS[statement]
    with kills():
        spark.sql(text).collect()
    found = {row.tableName: spark.table(f"killed.{row.tableName}").count() for row in spark.sql("SHOW TABLES IN killed").collect()}
    assert found == expected
    if statement in ("OPTIMIZE", "CALL"):
        latest = Dataset.open(table)
        assert len(latest.snapshot.manifest.fragments) == 1
        assert [version.operation for version in latest.history()].count("Rewrite") == 1
        assert latest.verify().ok
