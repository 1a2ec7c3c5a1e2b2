"""The cost of reading a task: time that waits for the store is not time that decodes, and a divided fragment counts once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.storage.local import LocalFiles
from lance_spark.storage.store import Store
from lance_spark.storage.waiting import waited
from lance_spark.table.scan.cost import Cost
from lance_spark.table.scan.plan import ScanPlan, plan_tasks

DELAY_S = 0.05
ROWS = 30_000


@contextmanager
def slow_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Reads of ranges take longer within the block."""
    plain = LocalFiles.read_ranges

    def slow(self: LocalFiles, path: str, reads: list[tuple[int, int]]) -> object:
        threading.Event().wait(DELAY_S)
        return plain(self, path, reads)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(LocalFiles, "read_ranges", slow)
        yield


@pytest.mark.parametrize("plan", [ScanPlan(task_limit=ROWS), ScanPlan()], ids=["in-this-thread", "read-ahead"])
def test_waiting_for_the_store_is_apart_from_decoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: ScanPlan) -> None:
    made = Dataset.write(str(tmp_path / "t.lance"), pa.table({"v": [b"%0256d" % i for i in range(ROWS)]}))
    [task] = plan_tasks(made.snapshot, plan)
    list(task.read())
    cost = Cost()
    start = time.perf_counter()
    with slow_store(monkeypatch):
        assert sum(batch.num_rows for batch in task.read(cost)) == cost.rows == ROWS
    took = time.perf_counter() - start
    assert cost.waiting >= DELAY_S
    assert cost.decoding > 0
    assert cost.waiting + cost.decoding <= took


def test_writing_into_a_file_is_waiting_and_what_is_done_meanwhile_is_not(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    before, start = waited(), time.perf_counter()
    with store.create("a") as out:
        threading.Event().wait(DELAY_S)
        out.write(b"x")
    assert waited() - before < time.perf_counter() - start - DELAY_S
    assert waited() > before
    assert store.read("a") == b"x"


def test_each_thread_has_its_own_time(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    found: list[float] = []
    store.put("a", b"x")
    before = waited()
    thread = threading.Thread(target=lambda: found.append((store.read("a"), waited())[1]))
    thread.start()
    thread.join()
    assert found[0] > 0
    assert waited() == before


def test_costs_of_several_tasks_add_up() -> None:
    total, one = Cost(frozenset({("t", 1)})), Cost(rows=2, bytes=3, pages=4, waiting=0.5, decoding=0.25)
    one.counts.bytes_read, one.counts.pages = 5, 6
    total.include(one)
    total.include(one)
    total.add(("t", 1), one.counts)
    assert (total.rows, total.bytes, total.pages, total.waiting, total.decoding) == (4, 6, 8, 1.0, 0.5)
    assert (total.counts.bytes_read, total.counts.pages) == (15, 18)
    total.add(("t", 2), one.counts)
    assert total.pages == 14
