"""backfill while workers, drivers and other writers come and go: what was computed is not computed again, and nothing is missed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset, LanceTable, lance_udf
from lance_spark.errors import FunctionFailedError
from lance_spark.table.backfill.plan import FOLDER
from lance_spark.table.backfill.results import result_file
from tests.spark_session import SPARK_ERRORS, worker_environment

ROWS = pa.table({"id": pa.array(range(6000), pa.int64()), "x": pa.array(range(6000), pa.int64())})


@pytest.fixture
def table(uri: str, spark: SparkSession) -> LanceTable:
    lance.write_dataset(ROWS, uri, max_rows_per_file=2000)
    return LanceTable.forPath(spark, uri)


def tripled(folder: Path, wait: str = "", kill: int | None = None, fail: int | None = None, version: str = "1") -> Callable[..., Any]:
    """A function that counts its calls. It waits for the file `wait`, or ends its worker or fails at an id, once."""

    @lance_udf("bigint", version=version, batch_size=100)
    def triple(id: pa.Array, x: pa.Array) -> pa.Array:
        (folder / "begun").touch()
        deadline = time.monotonic() + 250
        while wait and not (folder / wait).exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        ids = id.to_pylist()
        if kill is not None and kill in ids and not (folder / "killed").exists():
            from tests.verbs.test_backfill_interrupted import lacking, wait_for  # here, so that other workers need not import this

            fragment = kill // 2000
            wait_for(lambda: not lacking(folder, fragment))  # results that wait to be written would be lost
            (folder / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if fail in ids and not (folder / "failed").exists():
            (folder / "failed").touch()
            raise RuntimeError("out of credits")
        with (folder / f"calls-{os.getpid()}").open("ab") as noted:
            noted.write(id.to_numpy().tobytes())
        return pc.multiply(x, 3)

    return triple


def calls(folder: Path) -> Counter[int]:
    """How often each id was computed."""
    return Counter(i for path in folder.glob("calls-*") for i in np.fromfile(path, "<i8").tolist())


def lacking(folder: Path, fragment: int) -> int:
    """How many rows of a fragment were computed, and are not in the files of results beside the table."""
    found = (result_file(path.name) for path in (folder / "table.lance" / FOLDER).glob(f"*/*/{fragment}/*.arrow"))
    kept = sum(file.rows for file in found if file is not None)
    return sum(count for id, count in calls(folder).items() if id // 2000 == fragment) - kept


def check(uri: str, version: str = "1") -> None:
    """The values are those that a plain computation of all rows gives."""
    dataset = lance.dataset(uri)
    dataset.validate()
    assert Dataset.open(uri).verify().ok
    rows = dataset.to_table()
    assert rows.column("n").equals(pc.multiply(rows.column("x"), 3))
    assert rows.column("n__backfill").combine_chunks().field("version").unique().to_pylist() == [version]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 250
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextlib.contextmanager
def running(table: LanceTable, folder: Path, function: Callable[..., Any], **arguments: Any) -> Iterator[list[Any]]:
    """A backfill that runs in another thread during the block; the list has its result or error afterwards."""
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.append(table.backfill("n", function, **arguments))
        except Exception as e:  # noqa: BLE001 (the test looks at it)
            outcome.append(e)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        wait_for((folder / "begun").exists)
        yield outcome
    finally:
        (folder / "go").touch()
        thread.join()


def test_results_survive_a_failed_function(table: LanceTable, uri: str, tmp_path: Path) -> None:
    with pytest.raises(FunctionFailedError, match="out of credits"):
        table.backfill("n", tripled(tmp_path, fail=3900), num_tasks=3)
    before = calls(tmp_path)
    assert sum(before.values()) >= 1900
    done = table.backfill("n", tripled(tmp_path))
    after = calls(tmp_path)
    assert done.num_computed_rows == sum(after.values()) - sum(before.values())
    # The failure may have stopped the tasks of the other fragments before their last results were written.
    assert {after[id] for id in range(2000, 4000)} == {1}
    assert set(after.values()) <= {1, 2}
    assert len(after) == 6000
    check(uri)


def test_results_of_another_version_are_not_used(table: LanceTable, uri: str, tmp_path: Path) -> None:
    with pytest.raises(FunctionFailedError):
        table.backfill("n", tripled(tmp_path, fail=3900), num_tasks=3)
    assert table.backfill("n", tripled(tmp_path, version="2")).num_computed_rows == 6000
    check(uri, "2")


def test_a_lost_worker_does_not_end_the_backfill(table: LanceTable, uri: str, tmp_path: Path) -> None:
    table.backfill("n", tripled(tmp_path, kill=3900), num_tasks=3)
    assert (tmp_path / "killed").exists()
    found = calls(tmp_path)
    assert len(found) == 6000
    assert sum(found.values()) - 6000 <= 600
    check(uri)


def test_a_cancelled_job_leaves_what_is_done(table: LanceTable, uri: str, spark: SparkSession, tmp_path: Path) -> None:
    with running(table, tmp_path, tripled(tmp_path, wait="go")) as outcome:
        spark.sparkContext.cancelAllJobs()
    assert isinstance(outcome[0], SPARK_ERRORS)
    assert table.backfill("n", tripled(tmp_path)).num_rows == 6000
    check(uri)


def test_others_append_delete_update_and_compact_meanwhile(table: LanceTable, uri: str, tmp_path: Path) -> None:
    table.backfill("n", tripled(tmp_path, version="0"))
    (tmp_path / "begun").unlink()
    with running(table, tmp_path, tripled(tmp_path, wait="go"), fragments_per_commit=1) as outcome:
        lance.dataset(uri).delete("id < 10 OR id >= 5900")
        lance.dataset(uri).insert(pa.table({"id": pa.array(range(6000, 6100)), "x": pa.array(range(100))}))
        Dataset.open(uri).update({"x": "x + 7"}, "id >= 2000 AND id < 4000")  # in place
        lance.dataset(uri).update({"x": "-2"}, "id = 5000")
        lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=2500)
        Dataset.open(uri).delete("id = 5001")
        Dataset.open(uri).optimize.compact_files(target_rows_per_fragment=5000)
    assert outcome[0].num_rows
    table.backfill("n", tripled(tmp_path))
    assert lance.dataset(uri).count_rows() == 6000 - 10 - 100 - 1 + 100
    check(uri)


def test_a_compaction_meanwhile_does_not_lose_other_fragments(table: LanceTable, uri: str, tmp_path: Path) -> None:
    table.backfill("n", tripled(tmp_path), where="id < 0")  # the columns are there
    with running(table, tmp_path, tripled(tmp_path, wait="go"), num_tasks=3) as outcome:
        lance.dataset(uri).delete("id >= 4000 AND id < 5000")
        lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=1500, materialize_deletions_threshold=0.1)
    assert outcome[0].num_rows == 5000
    check(uri)


SCRIPT = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from lance_spark import LanceTable
from tests.verbs.test_backfill_interrupted import tripled
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.log.level", "OFF").getOrCreate()
LanceTable.forPath(spark, sys.argv[1]).backfill("n", tripled(Path(sys.argv[2]), kill=-1), num_tasks=6)
"""


@pytest.mark.slow
@pytest.mark.parametrize("computed", [100, 1500, 4000])
def test_a_killed_driver_loses_only_what_was_just_computed(table: LanceTable, uri: str, tmp_path: Path, computed: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, uri, str(tmp_path)], env={**os.environ, **worker_environment()}, start_new_session=True
    )
    wait_for(lambda: len(calls(tmp_path)) >= computed)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    table.backfill("n", tripled(tmp_path))
    found = calls(tmp_path)
    assert len(found) == 6000
    assert sum(found.values()) - 6000 <= 2 * 2048 + 200
    check(uri)


def test_nothing_is_left_in_the_folder_of_results(table: LanceTable, uri: str, tmp_path: Path) -> None:
    table.backfill("n", tripled(tmp_path))
    assert not [path for path in Path(uri, FOLDER).rglob("*") if path.is_file() and not path.name.startswith("verified-")]
