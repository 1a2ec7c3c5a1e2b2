"""Row-level changes: rows that are deleted, updated or inserted, written by many tasks and committed as one transaction.

Every verb that changes rows takes this way. A task gets delta rows: an operation, the address of the row that it changes,
and new values (see `delta_writer`). It gives back new fragments and, for each old fragment, a bitmap of the rows that left (`DeltaPart`).
The driver unites the parts, writes deletion files and commits an Update or a Delete (`commit_delta`).
Implements "Update" and "Delete" of the transaction specification.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from pyroaring import BitMap

from lance_spark.errors import AmbiguousMergeError, CommitStateUnknownError, LanceError, StorageError
from lance_spark.metadata.deletion_file import read_deletions, write_deletions
from lance_spark.metadata.fragment import DeletionFile, Fragment
from lance_spark.metadata.inserted_keys import united as united_keys
from lance_spark.metadata.operations import REWRITE_ROWS, Delete, InsertedKeys, Operation, Update
from lance_spark.metadata.row_address import RowAddress
from lance_spark.metadata.transaction import Transaction
from lance_spark.schema.schema import Field, Schema
from lance_spark.table.commit.commit import commit
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot
from lance_spark.table.write.evolving import merge_of
from lance_spark.table.write.write import WriteTarget

OPERATION = "__row_operation"
ROW_ADDRESS = "_rowaddr"
DELETED, UPDATED, INSERTED, REINSERTED = 1, 2, 3, 4
"""The values of `OPERATION`, which are those of Spark's row-level commands."""

_WRITERS = 16


@dataclass(frozen=True)
class DeltaTarget:
    """What tasks that change rows of one version must know. Pickles small: a task opens the version when it needs it.

    `assigned` are the top-level columns whose values delta rows bring for an update; a task reads the others from the table.
    `key` are the fields of the primary key if the change must tell the keys of the rows that it inserts. With `repeats`, delta rows may
    delete one row more than once.
    """

    write: WriteTarget
    version: int
    assigned: tuple[str, ...]
    allow_other_stores: bool = False
    verify_checksums: bool = True
    key: tuple[Field, ...] = ()
    repeats: bool = False

    @cached_property
    def snapshot(self) -> Snapshot:
        """The version that the row addresses are of."""
        opened = open_snapshot(self.write.store, version=self.version, allow_other_stores=self.allow_other_stores)
        return replace(opened, verify_checksums=self.verify_checksums)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "snapshot"}


@dataclass(frozen=True)
class DeltaPart:
    """What one task did: the rows that left each fragment (fragment id -> portable roaring bitmap), and new fragments.

    `moved` hold rows that were updated, with their row ids where these are stable; `inserted` hold new ones, whose keys are `keys`.
    """

    left: Mapping[int, bytes]
    moved: tuple[Fragment, ...]
    inserted: tuple[Fragment, ...]
    num_deleted: int
    num_updated: int
    num_inserted: int
    keys: InsertedKeys | None = None


def ambiguous(fragment_id: int, offset: int) -> AmbiguousMergeError:
    return AmbiguousMergeError(
        f"row {offset} of fragment {fragment_id} is changed more than once; each row of the table may match one change at most",
        RowAddress.of(fragment_id, offset),
    )


@dataclass(frozen=True)
class Delta:
    """All parts of a change together."""

    left: Mapping[int, BitMap]
    moved: tuple[Fragment, ...]
    inserted: tuple[Fragment, ...]
    num_deleted: int
    num_updated: int
    num_inserted: int
    keys: InsertedKeys | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return not (self.left or self.moved or self.inserted)

    @property
    def new_fragments(self) -> tuple[Fragment, ...]:
        """The fragments to be added."""
        return (*self.moved, *self.inserted)


def united(parts: Iterable[DeltaPart]) -> Delta:
    """The parts as one change. Raises AmbiguousMergeError when two tasks change the same row."""
    left: dict[int, BitMap] = {}
    moved: list[Fragment] = []
    inserted: list[Fragment] = []
    counts = np.zeros(3, dtype=np.int64)
    keys: InsertedKeys | None = None
    for part in parts:
        for fragment_id, data in part.left.items():
            rows, known = BitMap.deserialize(data), left.get(fragment_id)
            if known is not None and (both := known & rows):
                raise ambiguous(fragment_id, both[0])
            left[fragment_id] = rows if known is None else known | rows
        moved += part.moved
        inserted += part.inserted
        counts += (part.num_deleted, part.num_updated, part.num_inserted)
        if part.keys is not None:
            keys = part.keys if keys is None else united_keys(keys, part.keys)
    deleted, updated, added = counts.tolist()
    return Delta(left, tuple(moved), tuple(inserted), deleted, updated, added, keys)


@dataclass(frozen=True)
class Intent:
    """What a change says of itself: the condition of a delete, the fields that an update assigns (ids), the table's new schema.

    A `schema` has the fields of the table, and then new ones, which are null in rows that the change does not write.
    """

    predicate: str = ""
    assigned: tuple[int, ...] = ()
    schema: Schema | None = None


def commit_delta(snapshot: Snapshot, delta: Delta, intent: Intent, properties: Mapping[str, str]) -> Snapshot:
    """Commit a change of the rows of `snapshot` as one transaction; one that changes nothing makes no version.

    Raises what `table.commit.commit.commit` raises; then the deletion files are gone, unless the version may exist, and the data files
    are left to the caller.
    """
    if delta.is_empty:
        return snapshot
    updated: list[Fragment] = []
    try:
        fragments = snapshot.manifest.lazy_fragments.of_ids(delta.left)
        removed = _with_deletions(snapshot, fragments, delta.left, updated, intent.schema is not None)
        if intent.schema is None:
            operation = _operation(delta, intent, tuple(updated), removed)
        else:
            operation = merge_of(snapshot, intent.schema, delta.new_fragments, updated)
        return commit(snapshot.store, Transaction(snapshot.version, operation, properties=properties), base=snapshot)
    except CommitStateUnknownError:
        raise
    except LanceError:
        delete_deletion_files(snapshot, updated)
        raise


def _operation(delta: Delta, intent: Intent, updated: tuple[Fragment, ...], removed: tuple[int, ...]) -> Operation:
    if not delta.new_fragments:
        return Delete(updated, removed, intent.predicate)
    return Update(
        removed_fragment_ids=removed,
        updated_fragments=updated,
        new_fragments=delta.new_fragments,
        fields_for_preserving_frag_bitmap=intent.assigned,
        update_mode=REWRITE_ROWS,
        inserted_keys=delta.keys,
    )


def _with_deletions(
    snapshot: Snapshot, fragments: Mapping[int, Fragment], left: Mapping[int, BitMap], updated: list[Fragment], keep_empty: bool
) -> tuple[int, ...]:
    """Write deletion files for the fragments that keep rows, which go into `updated`, and return the ids of those that keep none.

    With `keep_empty`, fragments without rows get deletion files too.
    """
    if missing := left.keys() - fragments.keys():
        raise LanceError(f"{snapshot} has no fragments {sorted(missing)}, which row addresses name")

    def deletion(fragment_id: int) -> DeletionFile | None:
        fragment = fragments[fragment_id]
        gone = np.array(left[fragment_id].to_array(), dtype=np.uint32)
        offsets = np.union1d(gone, read_deletions(fragment, snapshot.locations))
        if len(offsets) and offsets[-1] >= fragment.physical_rows:
            raise LanceError(f"{snapshot}: row {offsets[-1]} of fragment {fragment_id} is changed, which has {fragment.physical_rows} rows")
        if len(offsets) == fragment.physical_rows and not keep_empty:
            return None
        return write_deletions(snapshot.store, fragment_id, snapshot.version, offsets)

    removed: list[int] = []
    # One file a fragment: their latency, not their bytes, is what costs.
    with ThreadPoolExecutor(min(_WRITERS, len(left)) or 1) as pool:
        ids = sorted(left)
        for fragment_id, file in zip(ids, pool.map(deletion, ids)):
            if file is None:
                removed.append(fragment_id)
            else:
                updated.append(replace(fragments[fragment_id], deletion=file))
    return tuple(removed)


def delete_deletion_files(snapshot: Snapshot, fragments: Iterable[Fragment]) -> None:
    """Delete the deletion files of fragments that were not committed. Best effort: cleaning up the table finds what is left."""
    for fragment in fragments:
        if fragment.deletion is not None:
            with contextlib.suppress(StorageError):
                snapshot.store.delete(fragment.deletion.path(fragment.id))
