"""Migration of a table of an old storage version to the one of new tables, in one commit.

All columns of each fragment are written to one new file, row by row as they are. Fragments, row addresses, row ids,
deletions and indexes stay. Implements "Merge" of the transaction specification.

A fragment that is finished is noted in a folder of the table (see `changes.checkpoint`), so that a migration that was
stopped, or that another writer has overtaken, continues with the others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_spark.display.figures import Figures
from lance_spark.errors import CommitConflictError, UnsupportedFeatureError, logged
from lance_spark.file.supported_types import WRITABLE, check_supported
from lance_spark.metadata.manifest import Manifest
from lance_spark.metadata.operations import Merge
from lance_spark.metadata.transaction import Transaction
from lance_spark.schema.schema import Field, Schema
from lance_spark.schema.storage_version import StorageVersion
from lance_spark.table.build.manifest_builder import DEFAULT_FORMAT, TableSettings
from lance_spark.table.changes.checkpoint import Checkpoint
from lance_spark.table.changes.column_files import ColumnFile, ColumnTarget, blank_columns, column_target
from lance_spark.table.changes.new_columns import ColumnTask, add_columns_of, plan_columns
from lance_spark.table.commit.commit import commit_next, with_own_ids
from lance_spark.table.commit.idempotence import done_before
from lance_spark.table.commit.new_files import NewFiles
from lance_spark.table.commit.retry import CHANGE_TRIES
from lance_spark.table.scan.runner import Runner
from lance_spark.table.scan.stages import Results, Stage
from lance_spark.table.versions.snapshot import Snapshot, in_use, reopened
from lance_spark.table.write.options import NO_OPTIONS, WriteOptions
from lance_spark.table.write.rules import Kind
from lance_spark.table.write.write import rewrite_target

NOTES = "_migration"
"""The folder of the notes in the folder of the table."""


@dataclass(frozen=True)
class Migrated(Figures):
    """The version that a migration made, or the latest one if there was nothing to do, and what was written."""

    version: int
    storage_version: str
    fragments: int = 0
    bytes_written: int = 0


@dataclass(frozen=True)
class MigrationTask:
    """Writes one fragment anew, unless a note says that it is finished."""

    columns: ColumnTask
    checkpoint: Checkpoint

    @property
    def work(self) -> int:
        """About how many bytes it reads and writes."""
        return self.columns.work


def migrate_fragment(task: MigrationTask) -> list[ColumnFile]:
    """The new file of a fragment."""
    snapshot = task.columns.target.snapshot
    ids = {part.fragment.id for part in task.columns.scan.parts}
    noted = task.checkpoint.found(snapshot, without=set(snapshot.manifest.lazy_fragments.ids.tolist()) - ids)
    if noted:
        return [file for _, file, _ in noted.values()]
    return add_columns_of(task.columns, _same, task.checkpoint)


def _same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def is_current(manifest: Manifest) -> bool:
    """True if a table has the storage version of new tables, or a newer one."""
    return StorageVersion.parse(manifest.data_format) >= WRITABLE[DEFAULT_FORMAT]


def _tasks(snapshot: Snapshot, write: WriteOptions, cores: int, results: Results) -> Sequence[MigrationTask]:
    if is_current(snapshot.manifest):
        return []
    ids = snapshot.manifest.lazy_fragments.ids.tolist()
    tasks = plan_columns(snapshot, _target(snapshot), None, ids)
    return [MigrationTask(task, _checkpoint(snapshot)) for task in tasks]


STAGES: Sequence[Stage[WriteOptions]] = (Stage(_tasks, migrate_fragment),)
"""The stages of a migration for an engine that runs them itself, and then calls `commit_migration`."""


def migrate(runner: Runner, snapshot: Snapshot, write: WriteOptions = NO_OPTIONS) -> Migrated:
    """Migrate the latest version. If other writers commit meanwhile, what they have changed is written anew."""
    if done := done_before(snapshot.store, write.noted):
        return Migrated(done.version, done.manifest.data_format)
    for _ in range(CHANGE_TRIES):
        snapshot = with_own_ids(reopened(snapshot))
        if is_current(snapshot.manifest):
            return Migrated(snapshot.version, snapshot.manifest.data_format)
        with in_use(snapshot):
            results = [runner.run(_tasks(snapshot, write, runner.cores, []), migrate_fragment)]
        if (migrated := _committed(snapshot, write, results)) is not None:
            return migrated
    raise _overtaken(snapshot)


def commit_migration(snapshot: Snapshot, write: WriteOptions, results: Results) -> Migrated:
    """Commit the results of all `STAGES` for the same version, which must still be the latest."""
    if is_current(snapshot.manifest):
        return Migrated(snapshot.version, snapshot.manifest.data_format)
    migrated = _committed(snapshot, write, results)
    if migrated is None:
        raise _overtaken(snapshot)
    return migrated


def _overtaken(snapshot: Snapshot) -> CommitConflictError:
    what = "other writers have committed meanwhile; run the migration again, which continues with the fragments that they changed"
    return CommitConflictError(f"{snapshot}: {what}", retryable=True)


def _committed(snapshot: Snapshot, write: WriteOptions, results: Results) -> Migrated | None:
    """Commit the new files right after `snapshot`; None if another writer was first."""
    target = _target(snapshot)
    files = {file.fragment_id: file for task in results[0] for file in task}
    # A fragment without rows has no task, but it keeps its place.
    empty = set(snapshot.manifest.lazy_fragments.ids.tolist()) - files.keys()
    files |= {i: blank_columns(target, i) for i in empty}
    fragments = tuple(replace(f, files=(files[f.id].file,)) for f in snapshot.manifest.fragments)
    operation = Merge(fragments, target.write.schema, preserves_nullability=True, keeps_values=True)
    transaction = Transaction(snapshot.version, operation, properties=write.noted)
    done = commit_next(snapshot.store, transaction, snapshot, NewFiles(), TableSettings(DEFAULT_FORMAT))
    if done is None:
        return None
    _forget_notes(snapshot)
    return Migrated(done.version, DEFAULT_FORMAT, len(files), sum(f.file.size or 0 for f in files.values()))


def _forget_notes(snapshot: Snapshot) -> None:
    """Delete the notes. Best effort."""
    store = snapshot.store
    with logged(f"{store.uri}: deleting the notes of a migration"):
        for entry in store.list(NOTES):
            store.delete(f"{NOTES}/{entry.name}")
        store.remove_empty_folders(NOTES)


def _target(snapshot: Snapshot) -> ColumnTarget:
    """The target of the new files. Raises UnsupportedFeatureError for columns that they cannot have."""
    schema = _without_dictionaries(snapshot.manifest.schema)
    if blobs := [f.name for f in schema.walk() if f.is_blob]:
        raise UnsupportedFeatureError(f"{snapshot}: the blobs of the column {blobs[0]!r} cannot be migrated; overwrite the table instead")
    check_supported(schema, WRITABLE[DEFAULT_FORMAT])
    write = replace(rewrite_target(snapshot, NO_OPTIONS, adds_rows=False), schema=schema, data_format=DEFAULT_FORMAT)
    return replace(column_target(snapshot, write), kind=Kind.STORED)


def _without_dictionaries(schema: Schema) -> Schema:
    """The schema without places in the manifest, where files of 0.1 have the values of dictionaries."""

    def without(field: Field) -> Field:
        return replace(field, dictionary=None, children=tuple(map(without, field.children)))

    return replace(schema, fields=tuple(map(without, schema.fields)))


def _checkpoint(snapshot: Snapshot) -> Checkpoint:
    """The notes of this table with these columns."""
    meaning = [snapshot.store.uri, DEFAULT_FORMAT, [[f.id, f.name, f.logical_type] for f in snapshot.manifest.schema.walk()]]
    key = hashlib.sha256(json.dumps(meaning).encode()).hexdigest()[:24]
    return Checkpoint(snapshot.store.at(f"{snapshot.store.uri}/{NOTES}"), key)
