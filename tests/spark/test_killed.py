"""Drivers that are killed in the middle of a write, and tasks that run twice at once: each row is there once or not at all."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pyspark
import pytest

from lance_spark import Dataset
from tests.spark.processes import ROOT
from tests.spark_session import worker_environment

SPARK_HOME = Path(pyspark.__file__).parent
JOB = """
import os, signal, sys, time
import lance_spark
from lance_spark import LanceTable
from pyspark import TaskContext
from pyspark.sql import SparkSession

what, uri, folder, master = sys.argv[1:]
builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1").config("spark.log.level", "OFF")
builder = builder.master(master)
if what == "twice":
    builder = builder.config("spark.executor.memory", "1g").config("spark.speculation", "true")
    builder = builder.config("spark.speculation.interval", "100ms").config("spark.speculation.minTaskRuntime", "100ms")
    builder = builder.config("spark.speculation.quantile", "0.1")
spark = builder.getOrCreate()
lance_spark.enable(spark)
driver, jvm = os.getpid(), spark._jvm.ProcessHandle.current().pid()

def kill_the_driver(batches):
    # The other partitions are written meanwhile, or not.
    yield next(batches)
    os.kill(jvm, signal.SIGKILL)
    os.kill(driver, signal.SIGKILL)
    yield from batches

def run_twice(batches):
    # The first attempt of one task ends only after a second one has begun.
    if TaskContext.get().partitionId() == 3:
        mark = os.path.join(folder, "second")
        if TaskContext.get().attemptNumber():
            open(mark, "w").close()
        else:
            until = time.monotonic() + 120
            while not os.path.exists(mark) and time.monotonic() < until:
                time.sleep(0.01)
    yield from batches

rows = spark.range(100, 40100, 1, 4).selectExpr("id", "id % 7 v")
if what == "twice":
    rows.mapInArrow(run_twice, rows.schema).write.format("lance").mode("append").save(uri)
    spark.stop()
else:
    rows = rows.mapInArrow(kill_the_driver, rows.schema)
    if what == "append":
        rows.write.format("lance").mode("append").save(uri)
    elif what == "overwrite":
        rows.write.format("lance").mode("overwrite").save(uri)
    else:
        merge = LanceTable.forPath(spark, uri).alias("t").merge(rows.alias("s"), "t.id = s.id")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
"""
OLD = pa.table({"id": pa.array(range(110), pa.int64()), "v": pa.array([0] * 110, pa.int64())})


def spark_environment(folder: Path) -> dict[str, str]:
    environment = {**os.environ, **worker_environment(), "SPARK_HOME": str(SPARK_HOME), "SPARK_SCALA_VERSION": "2.13"}
    return environment | {"SPARK_WORKER_DIR": str(folder / "work"), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOG_DIR": str(folder)}


def run(what: str, uri: str, folder: Path, master: str = "local[2]") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", JOB, what, uri, str(folder), master]
    return subprocess.run(command, cwd=ROOT, env=spark_environment(folder), capture_output=True, text=True, check=False)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A master with workers on two addresses: Spark never runs a task a second time on the host of the first attempt."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    master, start = f"spark://127.0.0.1:{port}", [str(SPARK_HOME / "bin" / "spark-class"), "org.apache.spark.deploy"]
    kinds = [["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    kinds += [["worker.Worker", "--host", f"127.0.0.{n}", "--cores", "1", "--memory", "1g", "--webui-port", "0", master] for n in (1, 2)]
    with contextlib.ExitStack() as ending:
        for kind, *options in kinds:
            log = ending.enter_context((tmp_path / f"{len(options)}.log").open("ab"))
            command = [start[0], f"{start[1]}.{kind}", *options]
            process = subprocess.Popen(command, env=spark_environment(tmp_path), stdout=log, stderr=log)
            ending.callback(process.wait)
            ending.callback(process.terminate)
        yield master


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("what", ["append", "overwrite", "merge"])
def test_a_driver_that_is_killed_in_the_middle_of_a_write_has_changed_nothing(what: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, OLD, enable_stable_row_ids=True)
    done = run(what, uri, tmp_path)
    assert done.returncode == -9, done.stderr
    table = Dataset.open(uri)
    assert table.version == 1
    assert table.scan().to_table() == OLD == lance.dataset(uri).to_table()
    assert Dataset.write(uri, OLD, "append").count_rows() == 220 == lance.dataset(uri).count_rows()
    Dataset.open(uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert Dataset.open(uri).verify().orphans == ()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_task_that_runs_twice_at_once_writes_its_rows_once(tmp_path: Path, cluster: str) -> None:
    uri = str(tmp_path / "t")
    Dataset.write(uri, OLD)
    done = run("twice", uri, tmp_path, cluster)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert (tmp_path / "second").exists()
    found = lance.dataset(uri).to_table(columns=["id"])["id"].to_pylist()
    assert sorted(found) == sorted([*range(110), *range(100, 40100)])
    Dataset.open(uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert Dataset.open(uri).verify().orphans == ()
    assert sorted(lance.dataset(uri).to_table(columns=["id"])["id"].to_pylist()) == sorted(found)
