"""Workers and drivers that are killed while a vector index is made or kept."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import lance
import pytest

from lance_spark import Dataset
from tests.spark.processes import ROOT
from tests.spark_session import worker_environment
from tests.table.search.vectors import both, same, table, vectors

ROWS = 3000
MORE = 500
JOB = """
import os, signal, sys
from functools import partial
from lance_spark import Dataset
from lance_spark.table.indexes import create, training
from lance_spark.table.indexes.create import NewIndex, create_index
from lance_spark.table.indexes.optimize import Optimization, optimize_indices
from lance_spark.verbs.job import OnExecutors
from pyspark import TaskContext
from pyspark.sql import SparkSession

what, who, uri = sys.argv[1:]
create.MIN_SEGMENT_BYTES = create.MAX_SEGMENT_BYTES = 1
training.MOST_SAMPLE_BYTES = 20_000
builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1").config("spark.log.level", "OFF")
spark = builder.master("local[2,2]").getOrCreate()
driver, jvm = os.getpid(), spark._jvm.ProcessHandle.current().pid()

class Killing:
    # Kills after the first attempt of a task what has written its files: the worker, each time, or the driver in the last stages.
    cores, stages = 2, 0
    def run(self, tasks, function):
        self.stages += bool(tasks)
        killed = jvm if who != "workers" and self.stages == int(who) else 0
        return OnExecutors(spark, 2).run(tasks, partial(lost, function, killed))

def lost(function, killed, task):
    training.MOST_SAMPLE_BYTES = 20_000
    result = function(task)
    if killed:
        os.kill(killed, signal.SIGKILL)
        os.kill(driver, signal.SIGKILL)
    if who == "workers" and TaskContext.get().attemptNumber() == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return result

snapshot = Dataset.open(uri).snapshot
if what == "make":
    new = NewIndex("vec", "IVF_PQ", None, False, True, {"num_partitions": 9, "num_sub_vectors": 4})
    create_index(Killing(), snapshot, new, {})
else:
    how = {"append": Optimization(0), "merge": Optimization(), "retrain": Optimization(retrain=True)}
    optimize_indices(Killing(), snapshot, how[what], {})
spark.stop()
"""


def made(path: Path, what: str) -> str:
    """A table of three fragments; to keep an index, with one of two of them."""
    values = vectors(rows=ROWS)
    Dataset.write(path, table(values[: ROWS - MORE] if what != "make" else values), max_rows_per_file=1250)
    if what != "make":
        Dataset.open(path).create_index("vec", "IVF_PQ", num_partitions=9, num_sub_vectors=4)
        Dataset.write(path, table(values[ROWS - MORE :], first=ROWS - MORE), mode="append")
    return str(path)


def run(what: str, who: str, uri: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **worker_environment(), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", JOB, what, who, uri]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def check(uri: str, segments: int) -> None:
    """The index has all rows, here and in pylance, and after a cleanup there are no other files than those of the versions."""
    found = Dataset.open(uri)
    assert found.index_statistics("vec_idx")["num_unindexed_rows"] == 0
    assert found.verify().problems == ()
    same(*both(uri, {"column": "vec", "q": vectors(rows=ROWS)[40], "k": 10, "nprobes": 9, "refine_factor": 30}, columns=["id"]))
    found.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert len({file.parent for file in Path(uri, "_indices").glob("*/*")}) == segments


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("what", "segments"), {"make": 1, "append": 2, "merge": 1, "retrain": 1}.items())
def test_only_the_tasks_of_killed_workers_run_again(tmp_path: Path, what: str, segments: int) -> None:
    """Spark gives up after two attempts, and each task is lost once: what its first attempt has written is in nobody's way."""
    uri = made(tmp_path / "t", what)
    done = run(what, "workers", uri)
    assert done.returncode == 0, done.stderr
    check(uri, segments)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("what", "stage", "segments"),
    [("make", 1, 1), ("make", 5, 1), ("make", 6, 1), ("append", 1, 2), ("merge", 2, 1), ("retrain", 2, 1), ("retrain", 3, 1)],
)
def test_a_driver_that_is_killed_has_changed_nothing(tmp_path: Path, what: str, stage: int, segments: int) -> None:
    """While a model is trained (stages 1 to 4 if there are several partitions, otherwise 1), segments are built, or joined.

    The index can be made afterwards.
    """
    uri = made(tmp_path / "t", what)
    before = Dataset.open(uri)
    done = run(what, str(stage), uri)
    assert done.returncode == -9, done.stderr
    after = Dataset.open(uri)
    assert after.version == before.version == lance.dataset(uri).version
    assert after.list_indices() == before.list_indices()
    assert after.verify().problems == ()
    if what == "make":
        after.create_index("vec", "IVF_PQ", num_partitions=9, num_sub_vectors=4)
    else:
        after.optimize.optimize_indices(num_indices_to_merge=0 if what == "append" else None, retrain=what == "retrain")
    check(uri, segments)
