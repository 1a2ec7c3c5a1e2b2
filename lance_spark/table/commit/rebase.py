"""Rebase: adapting a transaction that was prepared for one version to a later one.

Implements "Rebase Mechanism" of the transaction specification. The rows that a Delete or an Update removes from a fragment are those in
its new deletion file that are not in the deletion file of the read version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from lance_spark.errors import CommitConflictError
from lance_spark.metadata.deletion_file import read_deletions, write_deletions
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.operations import CreateIndex, Delete, Update
from lance_spark.metadata.transaction import Transaction
from lance_spark.storage.store import Store
from lance_spark.table.build.index_coverage import changed_fields, without
from lance_spark.table.versions.snapshot import Snapshot, find_version


def read_snapshot(store: Store, transaction: Transaction, base: Snapshot | None) -> Snapshot:
    """Open the read version of the transaction. Raises CommitConflictError if it was removed."""
    found = base if base is not None and base.version == transaction.read_version else find_version(store, transaction.read_version)
    if found is None:  # pragma: no cover: a cleanup may remove it after the last check
        what = f"version {transaction.read_version}, which was read, has been removed; run the operation again"
        raise CommitConflictError(f"{store.uri}: {what}", retryable=True)
    return found


def rebased(transaction: Transaction, read: Snapshot, current: Snapshot) -> Transaction:
    """Adapt `transaction` from the version `read` to `current`. Writes deletion files for fragments in which both deleted rows.

    Raises a retryable CommitConflictError if both changed the same rows.
    """
    operation = transaction.operation
    if isinstance(operation, CreateIndex):
        changes = changed_fields(read.manifest.fragments, current.manifest.fragments)
        operation = replace(operation, new_indices=without(operation.new_indices, changes))
    elif isinstance(operation, Delete):
        merged = _merge(operation.updated_fragments, operation.deleted_fragment_ids, read, current)
        operation = replace(operation, updated_fragments=merged.updated, deleted_fragment_ids=merged.removed)
    else:
        assert isinstance(operation, Update)
        merged = _merge(operation.updated_fragments, operation.removed_fragment_ids, read, current)
        operation = replace(operation, updated_fragments=merged.updated, removed_fragment_ids=merged.removed)
    return replace(transaction, operation=operation, read_version=current.version)


@dataclass(frozen=True)
class _Merged:
    updated: tuple[Fragment, ...]
    removed: tuple[int, ...]


def _merge(updated: tuple[Fragment, ...], removed: tuple[int, ...], read: Snapshot, current: Snapshot) -> _Merged:
    ids = [*(f.id for f in updated), *removed]
    before, now = (s.manifest.lazy_fragments.of_ids(ids) for s in (read, current))
    for fragment_id in removed:
        if _differs(fragment_id, before, now):
            raise _conflict(current, f"fragment {fragment_id}, which this operation removes, was changed")
    kept, gone = [], list(removed)
    for ours in updated:
        if not _differs(ours.id, before, now):
            kept.append(ours)
            continue
        merged = _merge_rows(ours, before[ours.id], now.get(ours.id), read, current)
        if merged is None:
            gone.append(ours.id)
        else:
            kept.append(merged)
    return _Merged(tuple(kept), tuple(gone))


def _differs(fragment_id: int, before: Mapping[int, Fragment], now: Mapping[int, Fragment]) -> bool:
    old, new = before.get(fragment_id), now.get(fragment_id)
    return old is not None and (new is None or (old.files, old.deletion) != (new.files, new.deletion))


def _merge_rows(ours: Fragment, before: Fragment, now: Fragment | None, read: Snapshot, current: Snapshot) -> Fragment | None:
    """The fragment without the rows that either side deleted; None if no rows are left."""
    if now is None or not before.files == ours.files == now.files:
        # One side rewrote columns in place, and the other may have moved rows: neither has the other's values.
        raise _conflict(current, f"fragment {ours.id} was removed, or its columns were rewritten")
    try:
        was, theirs = read_deletions(before, read.locations), read_deletions(now, current.locations)
    except FileNotFoundError:
        raise _conflict(current, f"rows of fragment {ours.id} were deleted, and the deletion files that list them were removed") from None
    mine = np.setdiff1d(read_deletions(ours, read.locations), was, assume_unique=True)
    both = np.intersect1d(mine, theirs, assume_unique=True)
    if len(both):
        raise _conflict(current, f"row {both[0]} of fragment {ours.id} and {len(both) - 1} others were deleted or changed")
    merged = np.union1d(mine, theirs)
    if len(merged) == now.physical_rows:
        return None
    return replace(now, deletion=write_deletions(current.store, now.id, current.version, merged))


def _conflict(current: Snapshot, what: str) -> CommitConflictError:
    return CommitConflictError(f"{current}: {what} by another writer meanwhile; run the operation again", retryable=True)
