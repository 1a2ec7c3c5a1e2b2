"""What has changed in an input of a materialized view since the version that the view has read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lance_spark.metadata.branch_merges import publishes
from lance_spark.metadata.operations import Append, DataReplacement, Delete, Merge, Operation, Overwrite, Project, Restore, Update
from lance_spark.metadata.view_records import ViewInput, keeps_rows
from lance_spark.schema.schema import Field
from lance_spark.storage.store import Store
from lance_spark.table.changes.row_changes import changes_noted
from lance_spark.table.versions.history import find_transactions
from lance_spark.table.versions.ref_files import branch_folder
from lance_spark.table.versions.snapshot import Snapshot, find_version, open_snapshot
from lance_spark.table.versions.write_ahead_log import has_log

_CHANGES = (Append, Update, Delete, DataReplacement, Merge, Project)
"""Operations whose changes of rows the change feed tells."""


@dataclass(frozen=True)
class InputChanges:
    """The changes after the version `old` up to `new`: none, or only new rows, or others.

    `unknown` says why the changes cannot be told, so that all rows must be read; it is empty if they can.
    """

    old: int
    new: int
    is_changed: bool = False
    only_adds: bool = True
    unknown: str = ""


def read_input(name: str, snapshot: Snapshot, columns: Sequence[str], reference: str = "", tag: str = "") -> ViewInput:
    """What a view remembers of an input, of which its query reads these columns."""
    fields = {field.name: field for field in snapshot.manifest.schema.fields}
    read = {column: _told(fields[column]) for column in columns}
    branch = snapshot.manifest.branch or ""
    version, identity = snapshot.version, snapshot.identity
    return ViewInput(name, snapshot.store.uri, version, identity, read, reference, branch, tag)


def _told(field: Field) -> list[Any]:
    """What distinguishes a column from another one of the same name."""
    own, *nested = (each.id for each in field.walk())
    return [own, str(field.to_arrow().type), *nested]


def changes_since(recorded: ViewInput, now: ViewInput, snapshot: Snapshot) -> InputChanges:
    """The changes of an input since a refresh has read it; `now` is what it is in `snapshot`."""
    changed = InputChanges(recorded.version, snapshot.version, is_changed=True, only_adds=False)
    if why := _not_continued(recorded, now, snapshot):
        return _unknown(changed, f"{now.name} {why}")
    only_adds = True
    is_changed = False
    versions = range(recorded.version + 1, snapshot.version + 1)
    for version, transaction in zip(versions, find_transactions(snapshot.store, versions), strict=True):
        if transaction is None:
            return _unknown(changed, f"the version {version} of {now.name} was cleaned up, so its changes are unknown")
        operation = transaction.operation
        if keeps_rows(operation):
            continue
        if why := _untold(operation, transaction.properties, snapshot.manifest.has_stable_row_ids):
            return _unknown(changed, f"{now.name} was {why} in version {version}")
        is_changed = True
        only_adds = only_adds and isinstance(operation, Append)
    return InputChanges(recorded.version, snapshot.version, is_changed, only_adds)


def _unknown(changes: InputChanges, why: str) -> InputChanges:
    return InputChanges(changes.old, changes.new, is_changed=True, only_adds=False, unknown=why)


def _not_continued(recorded: ViewInput, now: ViewInput, snapshot: Snapshot) -> str:
    """Why the version that was read is not an earlier one of the same table, with the same columns; empty if it is."""
    if has_log(snapshot.manifest):
        return "has a write-ahead log, whose rows no version has"
    if recorded.uri != now.uri:
        return f"is another table than {recorded.uri}, which the view has read"
    if now.version < recorded.version:
        return f"is at version {now.version}, before version {recorded.version}, which the view has read"
    before = find_version(snapshot.store, recorded.version)
    if before is None:
        return f"has no version {recorded.version} any more, which the view has read"
    if before.identity != recorded.identity:
        return f"was dropped and made again since the view has read version {recorded.version}"
    for name, field in now.columns.items():
        if recorded.columns.get(name) != field:
            return f"has another column {name!r} than the one that the view has read"
    return ""


def _untold(operation: Operation, properties: Mapping[str, str], has_row_ids: bool) -> str:
    """What a commit does of which the change feed does not tell single rows; empty for others."""
    if publishes(properties) and not has_row_ids:
        return "given the rows of another branch, which it cannot compare without stable row ids,"
    if isinstance(operation, Overwrite):
        return "overwritten"
    if isinstance(operation, Restore):
        return "restored"
    return "" if isinstance(operation, _CHANGES) else f"changed by {type(operation).__name__}"


def written_by_others(snapshot: Snapshot, based_on: int, refreshed: int) -> str:
    """Why the rows of a view are not those of its last refresh; empty if they are.

    The refresh made the version `refreshed`, and was based on `based_on` (0: on none).
    """
    first = based_on + 1 if based_on else refreshed
    versions = [version for version in range(first, snapshot.version + 1) if version != refreshed]
    for version, transaction in zip(versions, find_transactions(snapshot.store, versions), strict=True):
        if transaction is None:
            return f"the version {version} of the view was cleaned up, so it is unknown whether another writer has changed the view"
        if not keeps_rows(transaction.operation):
            return f"another writer has changed the view in version {version}"
    return ""


def now_read(recorded: ViewInput, store_at: Callable[[str], Store]) -> Snapshot | None:
    """The version of an input that a refresh would read; None if it is none of the same branch.

    `store_at` gives the store of a URI. A tag may have been moved since the view has read it.
    """
    if not recorded.tag:
        return open_snapshot(store_at(recorded.uri))
    branch = f"/{branch_folder(recorded.branch)}" if recorded.branch else ""
    tagged = open_snapshot(store_at(recorded.uri.removesuffix(branch)), tag=recorded.tag)
    return tagged if tagged.store.uri == recorded.uri else None


def pending_rows(recorded: ViewInput, latest: Snapshot) -> int | None:
    """How many rows of an input were inserted, updated or deleted since a view has read it.

    None if the versions up to `latest` do not tell.
    """
    before = find_version(latest.store, recorded.version)
    if before is None or before.identity != recorded.identity or has_log(latest.manifest):
        return None
    total = 0
    versions = range(recorded.version + 1, latest.version + 1)
    for version, transaction in zip(versions, find_transactions(latest.store, versions), strict=True):
        if transaction is None:
            return None
        changes = changes_noted(version, transaction.properties)
        counts = (changes.num_inserted_rows, changes.num_updated_rows, changes.num_deleted_rows)
        if keeps_rows(transaction.operation):
            continue
        if isinstance(transaction.operation, Append):
            counts = (sum(fragment.physical_rows for fragment in transaction.operation.fragments), 0, 0)
        if not any(counts):
            return None
        total += sum(counts)
    return total
