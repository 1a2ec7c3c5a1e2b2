"""LanceTable, Dataset and pylance change one table at once, each its own rows: nothing is lost, nothing is there twice."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset, LanceTable
from lance_spark.errors import CommitConflictError
from tests.sample import others_slow

# Many more for a soak: LANCE_SPARK_SOAK=1.
SOAK = bool(os.environ.get("LANCE_SPARK_SOAK"))
STEPS = 100 if SOAK else 8
SIDES = ("ours", "pylance", "ours", "pylance") if SOAK else ("ours", "pylance")
OVERTAKEN = ("Too many concurrent writers", "conflict", "Conflict", "preempted", "Incompatible transaction", "does not exist", "Not found")
Rows = Mapping[int, int]

pytestmark = pytest.mark.timeout(3600 if SOAK else 300)


def table(rows: Rows) -> pa.Table:
    return pa.table({"id": pa.array(rows.keys(), pa.int64()), "v": pa.array(rows.values(), pa.int64())})


def listed(ids: list[int]) -> str:
    return ", ".join(map(str, [-1, *ids]))


class Worker:
    """Changes its own rows, whose ids begin with its number, through `side`, and keeps account of them."""

    def __init__(self, number: int, uri: str, side: str, spark: SparkSession | None = None) -> None:
        self.uri, self.side, self.spark = uri, side, spark
        self.random = random.Random(number)
        self.ids = itertools.count(number * 10**6)
        self.rows: dict[int, int] = {}

    def run(self) -> None:
        # Every step comes, in another order for each worker.
        steps = [self.append, self.append, self.delete, self.upsert, self.update, self.upsert, self.delete, self.compact]
        self.append()
        for step in (self.random.sample(steps, len(steps)) * (STEPS // len(steps) + 1))[:STEPS]:
            step()

    def fresh(self, count: int) -> Rows:
        return dict.fromkeys(itertools.islice(self.ids, count), 0)

    def some(self) -> list[int]:
        return self.random.sample(sorted(self.rows), min(len(self.rows), 5))

    def latest(self) -> Any:
        return lance.dataset(self.uri) if self.side == "pylance" else Dataset.open(self.uri)

    def append(self) -> None:
        new = self.fresh(10)
        if self.side == "pylance":
            until_it_lands(lambda: lance.write_dataset(table(new), self.uri, mode="append"))
        else:
            until_it_lands(lambda: Dataset.write(self.uri, table(new), "append"))
        self.rows.update(new)

    def delete(self) -> None:
        gone = self.some()
        until_it_lands(lambda: self.latest().delete(f"id IN ({listed(gone)})"))
        for i in gone:
            del self.rows[i]

    def upsert(self) -> None:
        given = {**dict.fromkeys(self.some(), self.random.randrange(1, 100)), **self.fresh(3)}

        def merge() -> None:
            self.latest().merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(table(given))

        until_it_lands(merge)
        self.rows.update(given)

    def update(self) -> None:
        ids, value = self.some(), self.random.randrange(100, 200)
        until_it_lands(lambda: self.latest().update({"v": str(value)}, where=f"id IN ({listed(ids)})"))
        self.rows.update(dict.fromkeys(ids, value))

    def compact(self) -> None:
        once(lambda: self.latest().optimize.compact_files(target_rows_per_fragment=40))


class SparkWorker(Worker):
    """The same with LanceTable."""

    def verbs(self) -> LanceTable:
        assert self.spark is not None
        return LanceTable.forPath(self.spark, self.uri)

    def frame(self, rows: Rows) -> Any:
        assert self.spark is not None
        return self.spark.createDataFrame(list(rows.items()), "id long, v long").coalesce(1)

    def append(self) -> None:
        new = self.fresh(10)
        until_it_lands(lambda: self.frame(new).write.format("lance").mode("append").save(self.uri))
        self.rows.update(new)

    def delete(self) -> None:
        gone = self.some()
        until_it_lands(lambda: self.verbs().delete(f"id IN ({listed(gone)})"))
        for i in gone:
            del self.rows[i]

    def upsert(self) -> None:
        given = {**dict.fromkeys(self.some(), self.random.randrange(1, 100)), **self.fresh(3)}
        source = self.frame(given).alias("s")

        def merge() -> None:
            self.verbs().alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

        until_it_lands(merge)
        self.rows.update(given)

    def update(self) -> None:
        ids, value = self.some(), self.random.randrange(100, 200)
        until_it_lands(lambda: self.verbs().update(f"id IN ({listed(ids)})", {"v": str(value)}))
        self.rows.update(dict.fromkeys(ids, value))

    def compact(self) -> None:
        once(lambda: self.verbs().optimize().executeCompaction(target_rows_per_fragment=40))


def once(change: Callable[[], object]) -> bool:
    """Whether the change could be made; that others were faster is the only reason why not."""
    try:
        change()
    except CommitConflictError as e:
        if not e.retryable:
            raise
        return False
    except (OSError, RuntimeError, ValueError) as e:
        if not any(word in str(e) for word in OVERTAKEN):
            raise
        return False
    return True


def until_it_lands(change: Callable[[], object]) -> None:
    while not once(change):
        pass


def run_alone(number: int, uri: str, side: str, start: Any, results: Any) -> None:
    """In a process of its own."""
    worker = Worker(number, uri, side)
    start.wait(timeout=250)
    worker.run()
    results.put((number, worker.rows))


@pytest.mark.parametrize("stable", others_slow([False, True], [True]), ids=["addresses", "stable row ids"])
def test_concurrent_changes_are_all_applied_once(stable: bool, tmp_path: Path, spark: SparkSession) -> None:
    uri = str(tmp_path / "t.lance")
    Dataset.write(uri, table({-2: 7}), enable_stable_row_ids=stable)
    spawn = multiprocessing.get_context("spawn")
    start, results = spawn.Barrier(len(SIDES) + 1), spawn.Queue()
    processes = [spawn.Process(target=run_alone, args=(i, uri, side, start, results)) for i, side in enumerate(SIDES, start=1)]
    for process in processes:
        process.start()
    own = SparkWorker(9, uri, "ours", spark)
    start.wait(timeout=250)
    own.run()
    expected = {-2: 7, **own.rows}
    for _ in processes:
        expected |= results.get(timeout=250)[1]
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(processes)
    lance.dataset(uri).validate()
    assert Dataset.open(uri).verify().ok
    for read in (lance.dataset(uri).to_table(), Dataset.open(uri).scan().to_table()):
        assert sorted(zip(read["id"].to_pylist(), read["v"].to_pylist(), strict=True)) == sorted(expected.items())
    ids = Dataset.open(uri).scan(columns=["_rowid"]).to_table()["_rowid"].to_pylist()
    assert len(set(ids)) == len(expected)
