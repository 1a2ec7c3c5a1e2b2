"""Deleting rows: writes deletion files for fragments that keep rows, and commits one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from lance_spark.errors import on_failure, on_refusal
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.manifest import check_writable
from lance_spark.metadata.operations import Delete
from lance_spark.metadata.row_address import by_fragment
from lance_spark.metadata.row_columns import with_row_columns
from lance_spark.metadata.transaction import Transaction
from lance_spark.predicate import parse
from lance_spark.predicate.tree import Literal
from lance_spark.table.build.manifest_builder import check_counts
from lance_spark.table.changes.deletions import discard, without_rows
from lance_spark.table.changes.row_changes import RowChanges, RowPlan, change_rows
from lance_spark.table.commit.commit import commit, with_own_ids
from lance_spark.table.commit.new_files import NewFiles
from lance_spark.table.commit.retry import retried
from lance_spark.table.scan.parts import all_live_rows
from lance_spark.table.scan.plan import ScanPlan, plan_tasks
from lance_spark.table.versions.snapshot import Snapshot, in_use
from lance_spark.table.write.options import WriteOptions


@dataclass(frozen=True)
class Deleted:
    """The version of a deletion, and its figures."""

    snapshot: Snapshot
    changes: RowChanges


def delete(snapshot: Snapshot, predicate: str) -> Deleted:
    """Delete the rows that satisfy `predicate`, a Spark SQL condition. This makes one new version, even if no row matches.

    Rows that others deleted meanwhile stay deleted. If others changed the same rows, the rows are searched again. Raises
    CommitConflictError after the last try, or if the delete no longer applies to the table.
    """
    return retried(snapshot, partial(_searched, predicate))


def _searched(predicate: str, snapshot: Snapshot) -> Callable[[], Deleted]:
    """Write the deletion files for the rows of one version; the function that commits them."""
    store = snapshot.store
    check_writable(snapshot.manifest, store.uri)
    check_counts(snapshot.manifest)
    condition = parse(predicate, with_row_columns(snapshot.manifest.schema))
    snapshot = with_own_ids(snapshot)
    updated: list[Fragment] = []
    since = time.time()
    if condition.root == Literal(True, pa.bool_()):
        removed = tuple(snapshot.manifest.lazy_fragments.ids.tolist())
        counts = [int(all_live_rows(snapshot).sum())]
    else:
        counts = []
        found = _matching(snapshot, ScanPlan(columns=("_rowaddr",), predicate=condition))
        with on_failure(lambda: discard(store, updated)), in_use(snapshot), closing(found):
            removed = without_rows(snapshot, _counted(found, counts), updated)
    transaction = Transaction(snapshot.version, Delete(tuple(updated), removed, predicate))

    def commit_deletion() -> Deleted:
        with on_refusal(lambda: discard(store, updated)):
            committed = commit(store, transaction, base=snapshot, files=NewFiles(since=since))
        return Deleted(committed, RowChanges(committed.version, num_deleted_rows=sum(counts)))

    return commit_deletion


def _counted(gone: Iterable[tuple[int, np.ndarray]], counts: list[int]) -> Iterator[tuple[int, np.ndarray]]:
    """The same rows, of whose numbers `counts` gets one for each fragment."""
    for fragment_id, offsets in gone:
        counts.append(len(offsets))
        yield fragment_id, offsets


def delete_all(snapshot: Snapshot, options: WriteOptions) -> RowChanges:
    """Delete all rows, also those that others add meanwhile. An empty table gets no new version."""
    return change_rows(snapshot, options, lambda latest: RowPlan(lambda _: _Emptying(latest), adds_rows=False))


@dataclass(frozen=True)
class _Emptying:
    """The deletion of all fragments of a version."""

    snapshot: Snapshot

    @property
    def changes(self) -> RowChanges:
        return RowChanges(self.snapshot.version, num_deleted_rows=int(all_live_rows(self.snapshot).sum()))

    def commit(self, properties: Mapping[str, str]) -> Snapshot:
        ids = self.snapshot.manifest.lazy_fragments.ids.tolist()
        if not ids:
            return self.snapshot
        transaction = Transaction(self.snapshot.version, Delete((), tuple(ids), "true"), properties=properties)
        return commit(self.snapshot.store, transaction, base=self.snapshot)


def _matching(snapshot: Snapshot, plan: ScanPlan) -> Generator[tuple[int, np.ndarray], None, None]:
    """The ids of fragments, each once, and the offsets of their rows that satisfy the plan's predicate."""
    at, parts = -1, list[np.ndarray]()
    for task in plan_tasks(snapshot, plan):
        for batch in task.read():
            for fragment_id, offsets in by_fragment(batch.column(0).to_numpy()):
                if parts and fragment_id != at:
                    yield at, np.concatenate(parts)
                    parts = []
                at = fragment_id
                parts.append(offsets)
    if parts:
        yield at, np.concatenate(parts)
