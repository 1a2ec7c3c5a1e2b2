"""Whole backfills without Spark, and the moments at which another client may change the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.storage.store import Store
from lance_spark.table.backfill.commit import Commits
from lance_spark.table.backfill.function import LanceFunction
from lance_spark.table.backfill.plan import Request
from lance_spark.table.backfill.rounds import Rounds
from lance_spark.table.backfill.work import Job, Share, ShareDone, run_share
from lance_spark.table.versions.snapshot import open_snapshot
from lance_spark.table.write.options import NO_OPTIONS
from tests.table.interleaving import InterruptedFiles, InterruptedStore

Action = Callable[[], object]
MOMENTS = ("computing", "computed", "committing", "committed")


def expected(x: Any) -> Any:
    """The value that is computed for an input: three times as much, and null for multiples of 5."""
    return None if x is None or x % 5 == 0 else x * 3


class AtCommit(InterruptedFiles):
    """Local files that run the action right before the first manifest is written."""

    def __init__(self, action: Action) -> None:
        super().__init__(0, action)
        self._is_done = False

    def put_if_absent(self, path: str, data: bytes, sync_name: bool = True) -> None:
        if "/_versions/" in path and not self._is_done:
            self._is_done = True
            self._action()
        super().put_if_absent(path, data, sync_name)


def backfill(
    uri: str, moment: str = "", action: Action = lambda: None, column: str = "y", where: str | None = None, input: str = "x"
) -> None:
    """Compute a column, which exists, of another one. The action runs once at a moment of the first round."""
    waiting = [action]

    def meanwhile(now: str) -> None:
        if now == moment and waiting:
            waiting.pop()()

    def function(x: pa.Array) -> pa.Array:
        meanwhile("computing")
        values = pc.cast(x, pa.int64())
        return pc.if_else(pc.equal(pc.subtract(values, pc.multiply(pc.divide(values, 5), 5)), 0), None, pc.multiply(values, 3))

    def run(shares: Sequence[Share], job: Job, commits: Commits) -> list[ShareDone]:
        done = [run_share(share, job) for share in shares]
        meanwhile("computed")
        commits.collect(final=True)
        meanwhile("committed")
        return done

    store = InterruptedStore(uri, AtCommit(lambda: meanwhile("committing"))) if moment == "committing" else Store(uri)
    described = LanceFunction(function, version="1", inputs=(input,), batch_size=100)
    request = Request(described, "1", where=where, num_tasks=1)
    rounds = Rounds(lambda: open_snapshot(store), column, request, NO_OPTIONS, 16, 1, run)
    for _ in range(5):
        if not rounds.round():
            return
    raise AssertionError("the backfill does not come to an end")
