"""Shares of a backfill without Spark: what a share that never came to an end has computed serves the next run, unless it is stale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_spark import Dataset
from lance_spark.errors import CorruptFileError, FunctionFailedError
from lance_spark.storage.store import Store
from lance_spark.table.backfill.commit import Commits
from lance_spark.table.backfill.function import LanceFunction, OnError
from lance_spark.table.backfill.plan import FOLDER, Request, make_job, plan_shares
from lance_spark.table.backfill.results import Results, Rows
from lance_spark.table.backfill.state import with_columns
from lance_spark.table.backfill.work import ShareDone, run_share
from lance_spark.table.versions.snapshot import open_snapshot
from lance_spark.table.write.options import NO_OPTIONS

COUNT = 200


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table of two fragments, the first of which has deleted rows."""
    uri = str(tmp_path / "table.lance")
    lance.write_dataset(pa.table({"id": range(COUNT), "x": range(COUNT)}), uri, max_rows_per_file=100)
    lance.dataset(uri).delete("id IN (3, 4, 50)")
    return uri


class Counting:
    """A function that notes what it was called with, and fails from an id on, or at some."""

    def __init__(self, fails_from: int = COUNT, bad: tuple[int, ...] = ()) -> None:
        self.seen: list[int] = []
        self.fails_from, self.bad = fails_from, bad

    def __call__(self, id: pa.Array, x: pa.Array) -> pa.Array:
        ids = id.to_pylist()
        if ids[-1] >= self.fails_from or set(ids) & set(self.bad):
            raise RuntimeError("no more")
        self.seen += ids
        return pc.multiply(x, 3)


def run(uri: str, function: Counting, tasks: int = 4, on_error: OnError = "fail", where: str | None = None) -> list[ShareDone]:
    described = LanceFunction(function, version="1", inputs=("id", "x"), batch_size=10)
    snapshot, columns = with_columns(open_snapshot(Store(uri)), "n", pa.field("n", pa.int64()), ("id", "x"))
    request = Request(described, "1", where=where, on_error=on_error, num_tasks=tasks)
    job, verified = make_job(snapshot, columns, request, NO_OPTIONS)
    commits = Commits(snapshot, job, NO_OPTIONS, verified, 16)
    commits.collect(final=True)
    if commits.count:  # of the last run
        return run(uri, function, tasks, on_error, where)
    shares = plan_shares(snapshot, job, request, verified, 1)
    done = [run_share(share, job) for share in shares]
    commits.collect(final=True)
    return done


def check(uri: str) -> None:
    rows = lance.dataset(uri).to_table()
    assert rows.column("n").equals(pc.multiply(rows.column("x"), 3))
    assert Dataset.open(uri).verify().ok


def test_a_fragment_is_written_when_its_last_share_is_finished(uri: str) -> None:
    function = Counting()
    assert sum(done.computed for done in run(uri, function)) == 197
    assert sorted(function.seen) == [i for i in range(COUNT) if i not in (3, 4, 50)]
    assert lance.dataset(uri).version == 5
    check(uri)


def test_results_of_a_run_that_failed_serve_the_next(uri: str) -> None:
    first, second = Counting(fails_from=150), Counting()
    with pytest.raises(FunctionFailedError, match="no more"):
        run(uri, first)
    run(uri, second)
    assert sorted(first.seen + second.seen) == [i for i in range(COUNT) if i not in (3, 4, 50)]
    assert len(first.seen) > 130
    check(uri)


def test_results_for_other_inputs_are_not_used(uri: str) -> None:
    first, second = Counting(fails_from=70), Counting()
    with pytest.raises(FunctionFailedError):
        run(uri, first, tasks=1)
    Dataset.open(uri).update({"x": "x + 1000"}, "id < 90 AND id <> 20")  # in place
    run(uri, second)
    assert set(range(COUNT)) - set(second.seen) == {3, 4, 50, 20}
    check(uri)


def test_failed_rows_of_a_stopped_run_are_tried_again(uri: str) -> None:
    with pytest.raises(FunctionFailedError):
        run(uri, Counting(bad=(7,)), tasks=1)
    assert sum(done.failed for done in run(uri, Counting(bad=(7, 8)), on_error="null")) == 2
    second = Counting()
    run(uri, second)
    assert second.seen == [7, 8]
    check(uri)


@pytest.mark.parametrize("damage", ["other bytes", "a footer of other bytes"])
def test_a_damaged_or_removed_result_is_computed_again(damage: str, uri: str) -> None:
    with pytest.raises(FunctionFailedError):
        run(uri, Counting(fails_from=80), tasks=1)
    files = sorted(Path(uri, FOLDER).rglob("[0-9]*.arrow"))
    assert files
    for file in files:
        whole = file.read_bytes()
        file.write_bytes(b"x" if damage == "other bytes" else whole[:-60] + b"\xff" * 50 + whole[-10:])
    second = Counting()
    run(uri, second)
    assert len(second.seen) == 197
    check(uri)


def test_inputs_of_rows_that_were_compared_are_not_read_again(uri: str) -> None:
    inputs = list(Path(uri, "data").iterdir())
    run(uri, Counting())
    for file in inputs:
        file.unlink()
    shares = run(uri, Counting())
    assert [done.pending for done in shares] == [0] * 4
    for notes in Path(uri, FOLDER).rglob("verified-*.json"):
        notes.write_bytes(b"{")
    with pytest.raises(CorruptFileError, match="is missing"):
        run(uri, Counting())


def test_a_share_has_its_results_in_order_whatever_file_they_are_in(uri: str) -> None:
    results = Results(Store(uri), "r")
    rows: Any = Rows(pa.array([1, 2]).to_numpy(), pa.array([5, 6], pa.uint64()).to_numpy())
    assert results.known("run", 0, 10)[0].has(rows.offsets, rows.inputs).tolist() == [False, False]
    results.finish("run", 0, rows)
    assert results.finished("run", 2) is None
    results.finish("run", 1, Rows(rows.offsets + 2, rows.inputs))
    whole = results.finished("run", 2)
    assert whole is not None
    assert whole.offsets.tolist() == [1, 2, 3, 4]
