"""Changes as tasks that cross to other processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from lance_spark.arrow.types import expected_width
from lance_spark.predicate import Predicate
from lance_spark.storage.store import Store
from lance_spark.table.feed.changes import Changes
from lance_spark.table.scan.cost import Cost
from lance_spark.table.scan.own_rows import FindsItsRows
from lance_spark.table.scan.parts import all_live_rows
from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.versions.snapshot import open_pinned

_TASKS = 1000
"""A task takes Spark some milliseconds: commits of more versions are read some at a time."""


@dataclass(frozen=True)
class ChangesTask(FindsItsRows):
    """The changes of the commits after `begin`, up to `end`, in the columns of the version that had the number and the identity.

    With `fragments`, all rows of these fragments of the version `end` instead, as inserts.

    `num_rows` and `num_bytes` are guesses: only reading tells how many rows have changed.
    """

    store: Store
    version: int
    identity: str
    allow_other_stores: bool
    verify_checksums: bool
    begin: int
    end: int
    plan: ScanPlan
    predicate: Predicate | None
    net: bool
    updates: bool
    num_rows: int
    num_bytes: int
    fragments: tuple[int, ...] | None = None

    @property
    def changes(self) -> Changes:
        """The changes."""
        snapshot = open_pinned(self.store, self.version, self.identity, self.allow_other_stores)
        snapshot = replace(snapshot, verify_checksums=self.verify_checksums)
        return Changes(snapshot, self.begin, self.end, self.plan, self.predicate, self.net, self.updates)

    def read(self, cost: Cost | None = None) -> Iterator[pa.RecordBatch]:
        """The changes, in the order of `Changes.to_batches`. They do not tell their cost."""
        return self.changes.to_batches() if self.fragments is None else self.changes.of_fragments(self.fragments)

    def row_counts(self, cost: Cost) -> Iterator[int]:
        """The number of changes in each batch."""
        return (batch.num_rows for batch in self.read())


def changes_tasks(changes: Changes) -> list[ChangesTask]:
    """The tasks of changes, at least one: one for each version, but one for all net changes."""
    versions = changes.end - changes.begin
    size = max(versions if changes.net else -(-versions // _TASKS), 1)
    begins = range(changes.begin, max(changes.end, changes.begin + 1), size)
    rows = max(int(all_live_rows(changes.snapshot).sum()) // len(begins), 1)
    return [_task(changes, begin, min(begin + size, changes.end), rows) for begin in begins]


def fragment_tasks(changes: Changes, ids: Sequence[int]) -> list[ChangesTask]:
    """The tasks for all rows of fragments of the version `end`, as inserts."""
    groups = np.array_split(np.array(ids, np.int64), min(len(ids), _TASKS))
    rows = max(int(all_live_rows(changes.snapshot).sum()) // len(groups), 1)
    return [replace(_task(changes, changes.begin, changes.end, rows), fragments=tuple(group.tolist())) for group in groups]


def _task(changes: Changes, begin: int, end: int, rows: int) -> ChangesTask:
    snapshot, width = changes.snapshot, sum(expected_width(field.type) for field in changes.schema)
    return ChangesTask(
        snapshot.store,
        snapshot.version,
        snapshot.identity,
        snapshot.allow_other_stores,
        snapshot.verify_checksums,
        begin,
        end,
        changes.plan,
        changes.predicate,
        changes.net,
        changes.updates,
        rows,
        rows * width,
    )
