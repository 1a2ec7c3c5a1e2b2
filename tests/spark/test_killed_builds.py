"""Workers that are killed while a vector index is made."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lance_spark import Dataset
from tests.spark.processes import run
from tests.table.search.vectors import both, same, table, vectors

ROWS = 3000
JOB = """
import os, signal, sys
from functools import partial
from lance_spark import Dataset
from lance_spark.table.indexes import create, training
from lance_spark.table.indexes.create import NewIndex, create_index
from lance_spark.verbs.job import OnExecutors
from pyspark import TaskContext
from pyspark.sql import SparkSession

(uri,) = sys.argv[1:]
create.MIN_SEGMENT_BYTES = create.MAX_SEGMENT_BYTES = 1
training.MOST_SAMPLE_BYTES = 20_000
builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1").config("spark.log.level", "OFF")
spark = builder.master("local[2,4]").getOrCreate()

class Killing:
    # Kills after the first attempt of each task what has written its files.
    cores = 2
    def run(self, tasks, function):
        return OnExecutors(spark, 2).run(tasks, partial(killed, function))

def killed(function, task):
    training.MOST_SAMPLE_BYTES = 20_000
    result = function(task)
    if TaskContext.get().attemptNumber() == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return result

new = NewIndex("vec", "IVF_PQ", None, False, True, {"num_partitions": 9, "num_sub_vectors": 4})
create_index(Killing(), Dataset.open(uri).snapshot, new, {})
spark.stop()
"""


def made(path: Path) -> str:
    """A table of four fragments."""
    Dataset.write(path, table(vectors(rows=ROWS)), max_rows_per_file=1000)
    return str(path)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_only_the_tasks_of_killed_workers_run_again(tmp_path: Path) -> None:
    uri = made(tmp_path / "t")
    run(JOB, uri)
    check(uri)


def check(uri: str) -> None:
    """The index has all rows, here and in pylance, and there are no other files than those of the versions."""
    found = Dataset.open(uri)
    assert found.index_statistics("vec_idx")["num_unindexed_rows"] == 0
    assert found.verify().ok
    same(*both(uri, {"column": "vec", "q": vectors(rows=ROWS)[40], "k": 10, "nprobes": 9, "refine_factor": 30}, columns=["id"]))
    found.cleanup_old_versions(timedelta(0))
    assert len(list(Path(uri, "_indices").iterdir())) == 1
