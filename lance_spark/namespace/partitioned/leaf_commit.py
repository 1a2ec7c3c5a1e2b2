"""New versions of the tables of a partitioned namespace, which the namespace publishes later.

A new version has exactly the rows of the version that the namespace refers to, and the new rows. If the table has later versions, because
a writer died or is active, the referenced version is restored first, so that unpublished rows of others are never published. If the
namespace refers to no version of a table, its latest version is used.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from lance_spark.errors import CommitConflictError, RefConflictError, TableAlreadyExistsError, VersionNotFoundError
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.operations import Append, Delete, Merge, Operation, Overwrite, Restore, Update
from lance_spark.metadata.transaction import Transaction
from lance_spark.namespace.partitioned.write import WrittenPartition
from lance_spark.schema.schema import Schema
from lance_spark.storage.store import Store
from lance_spark.table.build.manifest_builder import TableSettings
from lance_spark.table.build.old_writers import highest_fragment_id
from lance_spark.table.changes.delta import NO_INTENT, Delta, operation_of
from lance_spark.table.commit.cleaned_up_versions import fits_by_name
from lance_spark.table.commit.commit import commit, commit_next
from lance_spark.table.commit.new_files import NewFiles
from lance_spark.table.commit.rebase import rebased
from lance_spark.table.commit.retry import attempts, back_off
from lance_spark.table.maintenance.clone import copy_file
from lance_spark.table.maintenance.progress import untracked
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.snapshot import Snapshot, reopened
from lance_spark.table.write.merge_schema import merge_of

TAG = "namespace-"
"""The prefix of the tags of versions that the namespace refers to; the version follows."""


def create(partition: WrittenPartition) -> Snapshot:
    """Create the table of a new partition."""
    target = partition.target
    operation = Overwrite(partition.fragments, target.schema)
    settings = TableSettings(target.data_format, target.options.stable_row_ids)
    try:
        done = commit(target.store, Transaction(0, operation), settings, files=NewFiles(target.schema, target.since))
    except TableAlreadyExistsError as e:
        raise CommitConflictError(f"{target.store.uri}: there already is a table; run the write again", retryable=True) from e
    keep(done)
    return done


def append(pinned: Snapshot, partition: WrittenPartition, fragments: Sequence[Fragment], exact: bool) -> Snapshot:
    """Add fragments to a table, based on exactly the version `pinned`, or on its latest version if not `exact`.

    Raises CommitConflictError if other writers always commit first, or if the table's columns have changed since the rows were written.
    """
    target = partition.target
    files = NewFiles(target.schema, target.since)
    return _committed(pinned, lambda base: _operation(base, target.schema, target.table_schema, fragments), files, exact)


@dataclass(frozen=True)
class LeafChange:
    """A change of the rows of `read`, a version of a table: `delta` without new rows, and `schema` if the table needs new columns.

    `updated` are the fragments that lose rows, with their deletion files, and `removed` those that lose all, if there is no `schema`.
    """

    read: Snapshot
    delta: Delta
    assigned: tuple[int, ...]
    schema: Schema | None
    updated: tuple[Fragment, ...]
    removed: tuple[int, ...]

    def on(self, base: Snapshot, inserted: Sequence[Fragment]) -> Operation:
        """The operation that makes the change in a version `base`, and adds the fragments `inserted`.

        Raises CommitConflictError if others have changed the same rows, or the columns, since `read`.
        """
        known, now = self.read.manifest.schema.fields, base.manifest.schema.fields
        count = len(known)
        # New columns of others do not matter, unless the change adds columns itself.
        if (now if self.schema else now[:count]) != known:
            raise CommitConflictError(f"{base}: the columns of the table have changed; run the operation again", retryable=True)
        delta = replace(self.delta, inserted=tuple(inserted))
        own = Transaction(self.read.version, operation_of(delta, NO_INTENT, self.updated, self.removed, self.assigned))
        operation = rebased(own, self.read, base).operation
        assert isinstance(operation, Delete | Update)
        if self.schema is None:
            return operation
        gone = operation.deleted_fragment_ids if isinstance(operation, Delete) else operation.removed_fragment_ids
        if gone:  # a fragment without rows cannot be taken out together with new columns
            what = f"the rows of fragment {gone[0]} were all deleted"
            raise CommitConflictError(f"{base}: {what} by this and another writer; run the operation again", retryable=True)
        return merge_of(base, self.schema, delta.new_fragments, operation.updated_fragments)


def change(pinned: Snapshot, leaf_change: LeafChange, inserted: Sequence[Fragment], files: NewFiles) -> Snapshot:
    """Change rows of a table, based on exactly the version `pinned`, which may be a later one than the change was made for.

    Raises CommitConflictError if other writers always commit first, and as `LeafChange.on`.
    """
    return _committed(pinned, lambda base: leaf_change.on(base, inserted), files, exact=True)


def _committed(pinned: Snapshot, operation: Callable[[Snapshot], Operation], files: NewFiles, exact: bool) -> Snapshot:
    """Commit the operation for the version `pinned`, or if not `exact`, for the latest one, and keep the new version."""
    for attempt in attempts():
        started = time.monotonic()
        base = restored(pinned) if exact else reopened(pinned)
        if base is not None:
            done = commit_next(pinned.store, Transaction(base.version, operation(base)), base, files)
            if done is not None:
                keep(done)
                return done
        back_off(attempt, time.monotonic() - started)
    what = f"{attempt + 1} tries to commit were all overtaken by other writers"
    raise CommitConflictError(f"{pinned.store.uri}: {what}", retryable=True)


def restored(pinned: Snapshot) -> Snapshot | None:
    """The latest version of a table, after making it equal to `pinned`; None if another writer was first."""
    latest = reopened(pinned)
    if latest.version == pinned.version or _same_rows(latest, pinned):
        return latest
    return commit_next(pinned.store, Transaction(latest.version, Restore(pinned.version)), latest)


def _same_rows(a: Snapshot, b: Snapshot) -> bool:
    return a.manifest.schema == b.manifest.schema and tuple(a.manifest.fragments) == tuple(b.manifest.fragments)


def _operation(base: Snapshot, schema: Schema, widened: Schema | None, fragments: Sequence[Fragment]) -> Append | Merge:
    """The operation that adds the fragments, whose files have the fields of `schema`; `widened` is the new schema if columns are added."""
    manifest = base.manifest
    if fits_by_name(schema, manifest.schema):
        return Append(tuple(fragments))
    count = len(manifest.schema.fields)
    if widened is None or widened.fields[:count] != manifest.schema.fields:
        raise CommitConflictError(f"{base}: the columns of the table have changed; run the write again", retryable=True)
    free = highest_fragment_id(manifest) + 1
    numbered = tuple(replace(f, id=free + i) for i, f in enumerate(fragments))
    return Merge((*manifest.fragments, *numbered), widened, preserves_nullability=True)


def copied(partition: WrittenPartition, store: Store) -> tuple[Fragment, ...]:
    """Copy the fragments of a partition to the table at `store`, which another writer has created for the same values."""
    source = partition.target.store
    for fragment in partition.fragments:
        for file in fragment.files:
            path = f"data/{file.path}"
            copy_file(source, path, store, path, untracked)
            folder = path.removesuffix(".lance")
            for entry in source.list(folder) if any(f.is_blob for f in partition.target.schema.walk()) else ():
                copy_file(source, f"{folder}/{entry.name}", store, f"{folder}/{entry.name}", untracked)
    return partition.fragments


def keep(snapshot: Snapshot) -> None:
    """Tag a version, so that no cleanup removes it while the namespace may refer to it."""
    now = datetime.now(UTC).isoformat()
    tag = refs.Tag(tag_name(snapshot.version), snapshot.version, snapshot.manifest.branch, None, now, now)
    with contextlib.suppress(RefConflictError):
        refs.put_tag(snapshot.root, replace(tag, manifest_size=snapshot.store.size(snapshot.path)), new=True)


def tag_name(version: int) -> str:
    """The name of the tag of a version."""
    return f"{TAG}{version}"


def tagged(root: Store) -> dict[int, str]:
    """The versions of a table that are tagged for the namespace, and the names of the tags."""
    found = {tag.version: name for name, tag in refs.tags(root).items() if name.startswith(TAG)}
    return {version: name for version, name in found.items() if name == tag_name(version)}


def drop_tag(root: Store, name: str) -> None:
    """Remove a tag if it exists."""
    with contextlib.suppress(VersionNotFoundError):
        refs.delete_tag(root, name)


def remove_table(store: Store) -> None:
    """Delete all files of an unreferenced table."""
    for entry in store.walk(""):
        store.delete(entry.name)
