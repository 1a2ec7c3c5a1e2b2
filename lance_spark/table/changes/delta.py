"""Row-level changes: many tasks delete, update or insert rows, and one transaction commits the result.

All that move rows meet here: DELETE, UPDATE and MERGE in SQL (`spark.write.delta`), the verbs of LanceTable and of Dataset (`row_changes`),
and the replacement of rows (`replace_where`).

1. The driver says what is changed: `DeltaTarget.of`.
2. A task gets delta rows, which consist of an operation, the address of the row to change, and new values. It returns new fragments and,
   for each old fragment, a bitmap of the rows that left it: `delta_writer.write_rows`, a `DeltaPart`.
3. The driver combines the parts, writes deletion files, and commits an Update or a Delete: `row_changes.WrittenDelta`.

Implements "Update" and "Delete" of the transaction specification.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from pyroaring import BitMap

from lance_spark.errors import AmbiguousMergeError, LanceError, on_refusal
from lance_spark.metadata.bitmaps import offsets_of
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.inserted_keys import united as united_keys
from lance_spark.metadata.operations import REWRITE_ROWS, Delete, InsertedKeys, Operation, Update
from lance_spark.metadata.row_address import RowAddress
from lance_spark.metadata.transaction import Transaction
from lance_spark.metadata.view_records import VIEW
from lance_spark.schema.schema import Field, Schema, quoted
from lance_spark.table.changes.deletions import discard, without_rows
from lance_spark.table.commit.commit import commit
from lance_spark.table.versions.snapshot import Snapshot, open_pinned
from lance_spark.table.write.conform import matched
from lance_spark.table.write.merge_schema import merge_of
from lance_spark.table.write.target import WriteTarget

OPERATION = "_rowaddr.operation"
"""A column of delta rows. No column of a table has this name: pylance has none with dots."""
ROW_ADDRESS = "_rowaddr"
ADDRESS_PATHS = (ROW_ADDRESS, quoted([ROW_ADDRESS]))
"""Both ways in which columns of a scan name it."""
DELETED, UPDATED, INSERTED, REINSERTED = 1, 2, 3, 4
"""The values of the column `OPERATION`, as in Spark's row-level commands."""


@dataclass(frozen=True)
class DeltaTarget:
    """The target of tasks that change rows of one version. Its pickle is small, because tasks open the version themselves.

    `assigned` are the top-level columns with new values in updated delta rows; a task reads the other columns from the table. `key` has the
    fields of the primary key if the keys of inserted rows must be recorded. With `repeats`, delta rows may delete a row more than once.
    """

    write: WriteTarget
    assigned: tuple[str, ...]
    allow_other_stores: bool = False
    verify_checksums: bool = True
    key: tuple[Field, ...] = ()
    repeats: bool = False

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        write: WriteTarget,
        assigned: Sequence[str] = (),
        key: tuple[Field, ...] = (),
        repeats: bool = False,
    ) -> DeltaTarget:
        """The target for a change of the rows of `snapshot`."""
        write.rules.generated.check_assigned(assigned)
        others, verify = snapshot.allow_other_stores, snapshot.verify_checksums
        return cls(write.based_on(snapshot), tuple(assigned), others, verify, key, repeats)

    @property
    def version(self) -> int:
        """The number of the version that the row addresses refer to."""
        return self.write.read_version

    @property
    def assigned_ids(self) -> tuple[int, ...]:
        """The ids of the assigned columns and of all their nested fields."""
        fields = self.write.schema.fields
        places = zip(fields, matched(self.assigned, fields), strict=True)
        computed = {c.column.name for c in self.write.rules.generated.computed if c.read & set(self.assigned)}
        columns = tuple(field for field, at in places if at is not None or field.name in computed)
        return tuple(field.id for field in Schema(columns).walk())

    @cached_property
    def snapshot(self) -> Snapshot:
        """The version that the row addresses refer to."""
        opened = open_pinned(self.write.store, self.version, self.write.read_identity, self.allow_other_stores)
        return replace(opened, verify_checksums=self.verify_checksums)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "snapshot"}


@dataclass(frozen=True)
class DeltaPart:
    """The result of one task: the rows that left each fragment (fragment id -> portable roaring bitmap), and new fragments.

    `moved` has the updated rows, with their row ids if these are stable. `inserted` has the new rows, and `keys` their primary keys.
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
        f"row {offset} of fragment {fragment_id} is changed more than once; each row of the table may match at most one change",
        RowAddress.of(fragment_id, offset),
    )


@dataclass(frozen=True)
class Delta:
    """The combined parts of a change."""

    left: Mapping[int, BitMap]
    moved: tuple[Fragment, ...]
    inserted: tuple[Fragment, ...]
    num_deleted: int
    num_updated: int
    num_inserted: int
    keys: InsertedKeys | None = None

    @property
    def is_empty(self) -> bool:
        """True if nothing changes."""
        return not (self.left or self.moved or self.inserted)

    @property
    def new_fragments(self) -> tuple[Fragment, ...]:
        """The fragments to be added."""
        return (*self.moved, *self.inserted)


def united(parts: Iterable[DeltaPart], repeats: bool = False) -> Delta:
    """Combine parts. Raises AmbiguousMergeError if two tasks change the same row; with `repeats`, they may both delete it."""
    left: dict[int, BitMap] = {}
    moved: list[Fragment] = []
    inserted: list[Fragment] = []
    counts = np.zeros(3, dtype=np.int64)
    keys: InsertedKeys | None = None
    for part in parts:
        for fragment_id, data in part.left.items():
            rows, known = BitMap.deserialize(data), left.get(fragment_id)
            if known is not None and (both := known & rows):
                if not repeats:
                    raise ambiguous(fragment_id, both[0])
                counts[0] -= len(both)
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
    """Information for the transaction: the condition of a delete, and a new schema.

    `schema` has the fields of the table, followed by new ones, which are null in rows that the change does not write. `compacted` are the
    SSTables of a write-ahead log, as serialised messages, that the change merges into the table.
    """

    predicate: str = ""
    schema: Schema | None = None
    compacted: tuple[bytes, ...] = ()


NO_INTENT = Intent()


def commit_delta(
    snapshot: Snapshot,
    delta: Delta,
    intent: Intent,
    properties: Mapping[str, str],
    assigned: tuple[int, ...] = (),
) -> Snapshot:
    """Commit a change of the rows of `snapshot` as one transaction.

    An empty change makes no version, unless it merges a log, or is a refresh of a materialized view, which remembers more than rows.

    `assigned` are the ids of the fields that an update assigns.

    Raises the errors of `table.commit.commit.commit`. Then the deletion files are deleted unless the version may exist, and the caller must
    handle the data files.
    """
    if delta.is_empty and not intent.compacted and VIEW not in properties:
        return snapshot
    updated: list[Fragment] = []
    with on_refusal(lambda: discard(snapshot.store, updated)):
        if missing := delta.left.keys() - set(snapshot.manifest.lazy_fragments.ids.tolist()):
            raise LanceError(f"{snapshot} has no fragments {sorted(missing)}, but row addresses refer to them")
        keep_empty = intent.schema is not None
        gone = ((i, offsets_of(rows)) for i, rows in delta.left.items())
        removed = without_rows(snapshot, gone, updated, keep_empty)
        operation: Operation
        if intent.schema is None:
            operation = operation_of(delta, intent, tuple(updated), removed, assigned)
        else:
            operation = merge_of(snapshot, intent.schema, delta.new_fragments, updated)
        return commit(snapshot.store, Transaction(snapshot.version, operation, properties=properties), base=snapshot)


def operation_of(
    delta: Delta,
    intent: Intent,
    updated: tuple[Fragment, ...],
    removed: tuple[int, ...],
    assigned: tuple[int, ...],
) -> Delete | Update:
    """The operation of a change that adds no columns: fragments are `updated`, which keep some rows, and `removed`."""
    if not delta.new_fragments and not intent.compacted:
        return Delete(updated, removed, intent.predicate)
    return Update(
        removed_fragment_ids=removed,
        updated_fragments=updated,
        new_fragments=delta.new_fragments,
        fields_for_preserving_frag_bitmap=assigned,
        update_mode=REWRITE_ROWS,
        inserted_keys=delta.keys,
        compacted_sstables=intent.compacted,
    )
