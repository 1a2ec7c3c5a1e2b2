"""What a branch has changed, committed to the branch that it was made of as if it had been changed there.

The changes of rows of all its versions become one operation, which other writers check for conflicts as
they do that of one statement. So rows need no key, as they do in a merge, and keep their row ids. A branch
with other changes, such as new columns or indexes, can be taken over only as a whole, if nothing else has
changed since it was made. Either way its files are copied, so that it can be deleted afterward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from lance_spark.errors import (
    CommitConflictError,
    UnsupportedFeatureError,
    on_refusal,
)
from lance_spark.metadata.branch_merges import MERGE
from lance_spark.metadata.deletion_file import read_deletions
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.inserted_keys import united
from lance_spark.metadata.locations import DATA
from lance_spark.metadata.numbered_writes import APP_ID
from lance_spark.metadata.operations import (
    REWRITE_ROWS,
    Append,
    Delete,
    InsertedKeys,
    Merge,
    Operation,
    Overwrite,
    ReserveFragments,
    Rewrite,
    Update,
)
from lance_spark.metadata.row_ids import all_values, parse_row_ids, serialise_row_ids
from lance_spark.metadata.transaction import Transaction
from lance_spark.table.branches.moved_rows import MovedRows, after_rewrites
from lance_spark.table.branches.publish import as_of, copied
from lance_spark.table.changes.deletions import discard, without_rows
from lance_spark.table.changes.row_changes import changes_noted, noted
from lance_spark.table.commit.commit import commit, commit_next
from lance_spark.table.commit.conflicts_since_read import judged
from lance_spark.table.commit.rebase import rebased
from lance_spark.table.versions.history import find_transaction
from lance_spark.table.versions.snapshot import Snapshot, reopened

_OF_ROWS = Append | Delete | Update | Overwrite | Rewrite | ReserveFragments


@dataclass(frozen=True)
class Transfer:
    """The changes of a branch from the version `fork`, of which it was made, to its version `head`.

    They are committed with this `uuid`, by which a repetition finds that they were, and these properties
    besides those of the branch's own versions.
    """

    fork: Snapshot
    head: Snapshot
    uuid: str
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether the branch has no version of its own."""
        return self.head.version == self.fork.version

    def check(self) -> None:
        """Raise CommitConflictError if `commit` would, as the table is now.

        Raises UnsupportedFeatureError for numbered writes: the branch does not know the numbers of the table,
        and its one version there could have one of them only, which would skip all of it.
        """
        if any(APP_ID in step.properties for step in self._steps):
            raise UnsupportedFeatureError(
                f"{self.fork.root.uri}: a transaction over several tables contains no numbered writes "
                f"({APP_ID}, COPY INTO, which load each number or file once); make them outside of it"
            )
        current = reopened(self.fork)
        if not self._is_of_rows:
            self._check_unchanged(current)
            return
        _, rebases = judged(self.fork.store, self._transaction, self.fork.version, current, self.fork, None)
        if rebases:
            tried = rebased(self._transaction, self.fork, current).operation
            known = {fragment.deletion for fragment in _updated(self._transaction.operation)}
            discard(current.store, [f for f in _updated(tried) if f.deletion not in known])

    def commit(self) -> Snapshot:
        """Commit the changes, or return the version that has them. Raises CommitConflictError."""
        if self._is_of_rows:
            try:
                return commit(self.fork.store, self._transaction, base=self.fork)
            except CommitConflictError:
                if (moved := self._after_rewrites()) is None:
                    raise
                return moved
        current = reopened(self.fork)
        if (done := self.done(current)) is not None:
            return done
        self._check_unchanged(current)
        made = commit_next(self.fork.store, self._transaction, self.fork)
        return made if made is not None else self.commit()

    def _after_rewrites(self) -> Snapshot | None:
        """The commit of changes of rows that others have only moved meanwhile; None if they have done more to them."""
        operation = self._transaction.operation
        gone = self._gone(operation)
        moved = after_rewrites(MovedRows(self.fork, gone), reopened(self.fork)) if gone else None
        if moved is None or not isinstance(operation, Delete | Update):
            return None
        updated: list[Fragment] = []
        with on_refusal(lambda: discard(self.fork.store, updated)):
            removed = without_rows(moved.version, moved.rows.items(), updated)
            if isinstance(operation, Delete):
                operation = Delete(tuple(updated), removed)
            else:
                operation = replace(operation, updated_fragments=tuple(updated), removed_fragment_ids=removed)
            own = replace(self._transaction, read_version=moved.version.version, operation=operation)
            return commit(self.fork.store, own, base=moved.version)

    def _gone(self, operation: Operation) -> dict[int, np.ndarray]:
        """The rows that an operation removes, by fragment."""
        if not isinstance(operation, Delete | Update):
            return {}
        before = {fragment.id: fragment for fragment in self.fork.manifest.fragments}
        removed = operation.deleted_fragment_ids if isinstance(operation, Delete) else operation.removed_fragment_ids
        now = {fragment.id: read_deletions(fragment, self.fork.locations) for fragment in operation.updated_fragments}
        now |= {id: np.arange(before[id].physical_rows, dtype=np.uint32) for id in removed}
        return {id: np.setdiff1d(rows, read_deletions(before[id], self.fork.locations)) for id, rows in now.items()}

    def undo(self) -> None:
        """Delete the files that were made for a commit which does not take place. Best effort; a cleanup removes others."""
        if "_transaction" not in vars(self):
            return
        operation = self._transaction.operation
        discard(self.fork.store, _updated(operation))
        known = {file.path for fragment in self.fork.manifest.fragments for file in fragment.files}
        added = operation.fragments if isinstance(operation, Append) else operation.new_fragments if isinstance(operation, Update) else ()
        for file in (file for fragment in added for file in fragment.files):
            if file.base_id is None and file.path not in known:
                self.fork.store.delete(f"{DATA}/{file.path}")

    def done(self, current: Snapshot) -> Snapshot | None:
        """The version with the changes, if they were committed."""
        for version in range(self.fork.version + 1, current.version + 1):
            theirs = find_transaction(self.fork.store, version)
            if theirs is not None and theirs.uuid == self.uuid:
                return reopened(current, version)
        return None

    def _check_unchanged(self, current: Snapshot) -> None:
        if current.version != self.fork.version:
            raise CommitConflictError(
                f"{current}: the table has changed since version {self.fork.version}, from which its columns, "
                "settings or indexes were changed; run the changes again",
                retryable=True,
            )

    @cached_property
    def _is_of_rows(self) -> bool:
        """Whether the changes are one operation of rows."""
        return self._of_rows is not None

    @cached_property
    def _transaction(self) -> Transaction:
        operation = self._of_rows if self._of_rows is not None else self._whole
        return Transaction(self.fork.version, operation, self.uuid, properties=self._noted)

    @property
    def _noted(self) -> dict[str, str]:
        """The properties of the versions of the branch, with the sums of the figures of their rows."""
        found: dict[str, str] = {}
        sums = changes_noted(0, {})
        for step in self._steps:
            found |= {key: value for key, value in step.properties.items() if key != MERGE}
            own = changes_noted(0, step.properties)
            sums = replace(sums, **{n: v + getattr(sums, n) for n, v in vars(own).items()})
        has_figures = not noted(sums).keys().isdisjoint(found)
        return {**found, **(noted(sums) if has_figures else {}), **self.properties}

    @cached_property
    def _steps(self) -> Sequence[Transaction]:
        """The transactions of the branch. Raises CommitConflictError if one of its versions was removed."""
        found = []
        for version in range(self.fork.version + 1, self.head.version + 1):
            step = find_transaction(self.head.store, version)
            if step is None:
                raise CommitConflictError(
                    f"{self.head.store.uri}, version {version}, was removed by a cleanup; run the changes again",
                    retryable=True,
                )
            found.append(step)
        return found

    @property
    def _whole(self) -> Operation:
        """The table as it is in the branch."""
        manifest = as_of(copied(self.head, self.fork), self.fork.version)
        return Merge(tuple(manifest.fragments), manifest.schema, published=manifest)

    @cached_property
    def _of_rows(self) -> Operation | None:
        """The operation of all changes of rows; None if there are others."""
        before, after = self.fork.manifest, self.head.manifest
        if before.schema != after.schema or before.config != after.config:
            return None
        if not all(isinstance(step.operation, _OF_ROWS) for step in self._steps):
            return None
        known = {fragment.id: fragment for fragment in before.fragments}
        new = self._new
        kept = known.keys() & ({fragment.id for fragment in after.fragments} - {fragment.id for fragment in new})
        added = [self._without_new_ids(fragment) for fragment in self._copied(new)]
        if None in added:
            return None
        inserted = tuple(fragment for fragment in added if fragment is not None)
        removed = tuple(sorted(known.keys() - kept))
        changed = [(known[f.id], f) for f in after.fragments if f.id in kept and f.deletion != known[f.id].deletion]
        return self._operation(inserted, removed, changed)

    @cached_property
    def _new(self) -> tuple[Fragment, ...]:
        """The fragments of the branch that the table has not, or not with the same files, as after an update in place."""
        known = {fragment.id: _paths(fragment) for fragment in self.fork.manifest.fragments}
        return tuple(f for f in self.head.manifest.fragments if known.get(f.id) != _paths(f))

    @property
    def to_rewrite(self) -> list[int]:
        """The ids of the branch's new fragments with deleted rows, which must be compacted before the commit: the files that
        list deleted rows have the id of the fragment in their names, which the table gives it anew."""
        return [fragment.id for fragment in self._new if fragment.deletion is not None]

    def _operation(
        self,
        inserted: tuple[Fragment, ...],
        removed: tuple[int, ...],
        kept: Sequence[tuple[Fragment, Fragment]],
    ) -> Operation:
        lost = {
            now.id: np.setdiff1d(
                read_deletions(now, self.head.locations),
                read_deletions(was, self.fork.locations),
                assume_unique=True,
            )
            for was, now in kept
        }
        updated: list[Fragment] = []
        emptied = without_rows(self.fork, ((i, rows) for i, rows in lost.items() if len(rows)), updated)
        removed = (*removed, *emptied)
        keys = self._keys
        if not updated and not removed and keys is None:
            return Append(inserted)
        if not inserted:
            return Delete(tuple(updated), removed)
        return Update(
            removed_fragment_ids=removed,
            updated_fragments=tuple(updated),
            new_fragments=inserted,
            fields_for_preserving_frag_bitmap=tuple(f.id for f in self.fork.manifest.schema.walk()),
            update_mode=REWRITE_ROWS,
            inserted_keys=keys,
        )

    @property
    def _keys(self) -> InsertedKeys | None:
        """The primary keys of the inserted rows, as far as the changes record them."""
        found: InsertedKeys | None = None
        for step in self._steps:
            own = step.operation.inserted_keys if isinstance(step.operation, Update) else None
            if own is not None:
                found = own if found is None else united(found, own)
        return found

    def _copied(self, new: tuple[Fragment, ...]) -> Sequence[Fragment]:
        """The new fragments, with their files copied to the table."""
        if not new:
            return ()
        part = replace(self.head, manifest=replace(self.head.manifest, fragments=new, indexes=()))
        return tuple(copied(part, self.fork).fragments)

    def _without_new_ids(self, fragment: Fragment) -> Fragment | None:
        """A new fragment without what the table gives it: its id, and the row ids of new rows.

        None if these are not the last ones, or if it is one `to_rewrite`.
        """
        fragment = replace(fragment, id=0, created_at=None, updated_at=None)
        if fragment.deletion is not None:
            return None
        if not isinstance(fragment.row_ids, bytes):
            return fragment
        ids = all_values(parse_row_ids(fragment.row_ids, fragment.physical_rows))
        is_old = ids < np.uint64(self.fork.manifest.next_row_id)
        count = int(is_old.sum())
        if not is_old[:count].all():
            return None
        return replace(fragment, row_ids=serialise_row_ids(ids[:count]) if count else None)


def _paths(fragment: Fragment) -> list[tuple[str, tuple[int, ...]]]:
    """The data files of a fragment. Their names are unique in all branches of a table."""
    return [(file.path, file.fields) for file in fragment.files]


def _updated(operation: Operation) -> tuple[Fragment, ...]:
    return operation.updated_fragments if isinstance(operation, Delete | Update) else ()
