"""The commit of a transaction over several tables, and what readers and writers do about one that was interrupted.

1. Each table that the transaction touches has a branch, of the version that the transaction saw first.
2. The changes of each branch are checked for conflicts with those of the table, and its files are copied.
3. One version of `__manifest` gets the record of the transaction. This is the commit.
4. Each table gets the changes, by an ordinary commit. Whoever opens one of the tables by its name does this
   first, if the writer has died. Commits by the path of a table that come between are kept.
5. The record is marked as finished, and the branches are deleted.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import uuid
from collections.abc import Mapping
from dataclasses import replace

from lance_spark.errors import (
    CommitConflictError,
    InvalidOperationError,
    LanceError,
    RefConflictError,
    SchemaMismatchError,
    StorageError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
    logged,
    on_refusal,
)
from lance_spark.metadata.operations import CONSTRAINT, UpdateConfig, UpdateMap
from lance_spark.metadata.transaction import PART_OF
from lance_spark.namespace import transaction_records as records
from lance_spark.namespace.manifest_rows import PARTITION_SPEC
from lance_spark.namespace.manifest_table import ManifestTable, change_metadata, open_manifest
from lance_spark.namespace.transaction_records import LAST, Change, Opened, Record
from lance_spark.storage.store import Store
from lance_spark.table.branches.merge import merge_branch
from lance_spark.table.branches.transfer import Transfer
from lance_spark.table.commit.commit import commit_operation
from lance_spark.table.compaction.compaction import CompactionOptions
from lance_spark.table.compaction.optimize import optimize
from lance_spark.table.maintenance.clone import create_branch
from lance_spark.table.scan.runner import Here
from lance_spark.table.versions import ref_files as refs
from lance_spark.table.versions.snapshot import Snapshot, open_pinned, open_snapshot, reopened
from lance_spark.table.versions.tags_and_branches import Branches
from lance_spark.table.versions.write_ahead_log import has_log
from lance_spark.table.write.options import NO_OPTIONS, WriteOptions

_WITHOUT_DELETIONS = CompactionOptions(materialize_deletions_threshold=0.0)
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)
"""The errors of an account that may only read."""
_LOG = logging.getLogger(__name__)


def begin(root: Store) -> Opened:
    """Open a transaction, which sees the transactions that are committed now.

    Raises UnsupportedFeatureError for a partitioned namespace, whose tables are changed together anyway.
    """
    table = open_manifest(root)
    if any(key.startswith(PARTITION_SPEC) for key in table.metadata):
        raise UnsupportedFeatureError(
            f"{root.uri} is a partitioned namespace, of which each write is a transaction over its tables; "
            "write to the namespace itself (lance_spark.PartitionedNamespace)"
        )
    for id in records.abandoned(root):
        with logged(f"{root.uri}: removing the abandoned transaction {id}"), contextlib.suppress(InvalidOperationError):
            roll_back(root, id)
    return records.begin(root, records.last_number(table))


def store_in(root: Store, id: str, folder: str) -> Store:
    """The branch that a transaction has of the table in a folder, which is made when it is first touched.

    Raises InvalidOperationError if the transaction is over, and TableNotFoundError for a table that is only declared.
    """
    opened = records.open_transaction(root, id)
    store = _table(root, folder)
    branch = _branch(store, opened.branch)
    with contextlib.suppress(VersionNotFoundError):
        refs.branch(store, opened.branch)
        return branch
    seen = _seen(root, folder, opened.sees)
    if has_log(seen.manifest):
        raise UnsupportedFeatureError(
            f"{seen}: a transaction does not contain changes of the write-ahead log; merge it first (CALL merge_mem_wal)"
        )
    records.touch(root, id, folder, made=False)
    try:
        create_branch(seen, opened.branch)
    except RefConflictError:
        refs.branch(store, opened.branch)  # another task of the transaction was first
    records.touch(root, id, folder, made=True)
    return branch


def _seen(root: Store, folder: str, sees: int) -> Snapshot:
    """The version of a table with the changes of the transactions up to a number, and of no later ones."""
    settled(root, folder)
    latest = open_snapshot(_table(root, folder))
    table = open_manifest(root)
    found = [record for record in records.records(table) if record.number > sees]
    if len(found) < records.last_number(table) - sees:
        raise CommitConflictError(
            f"{root.uri}: {records.last_number(table) - sees} transactions were committed since this one began, and {folder} as it "
            "was then is not known any more; run the transaction again",
            retryable=True,
        )
    later = next((record for record in found if record.of(folder) is not None), None)
    if later is None:
        return latest
    if not later.finished:  # committed after the table was settled, or of tables that this account may not write to
        finish(root, later)
        return _seen(root, folder, sees)
    change = later.of(folder)
    if change is None or change.landed is None:
        raise CommitConflictError(
            f"{root.uri}: {folder} as it was when this transaction began was removed; run the transaction again", retryable=True
        )
    return latest if change.landed > latest.version else reopened(latest, change.landed - 1)


def settled(root: Store, folder: str) -> Store:
    """The table in a folder with the changes of all committed transactions.

    If the account may not write to the table, this is the branch of a transaction that was interrupted.
    """
    table = open_manifest(root)
    for record in records.records(table):
        change = None if record.finished else record.of(folder)
        if change is None:
            continue
        try:
            finish(root, record)
        except StorageError as e:
            # After another failure the table may be opened for a write, which must not go to a branch that is deleted soon.
            if e.errno not in _REFUSED:
                raise
            if not _has_landed(root, record, change):
                _LOG.warning("%s: an interrupted transaction cannot be finished; its branch of %s is read: %s", root.uri, folder, e)
                return _branch(_table(root, folder), change.branch)
    return _table(root, folder)


def _has_landed(root: Store, record: Record, change: Change) -> bool:
    """Whether a table has the change of a transaction, although the account may not write to all of its tables."""
    try:
        _land(root, record, change)
    except StorageError:
        return False
    return True


def commit(root: Store, id: str) -> None:
    """Commit a transaction. Raises CommitConflictError if another writer has changed the same; then nothing is changed.

    CommitStateUnknownError is raised if it is unknown whether it is committed; the next one who opens a table finds out.
    """
    record = _record_of(open_manifest(root), id)
    if record is None:
        opened = records.open_transaction(root, id)
        with on_refusal(lambda: _clear(root, id)):
            record = _recorded(root, opened)
    if record is None:
        _clear(root, id)
        return
    with logged(f"{root.uri}: the transaction {id} is committed, but bringing its changes to the tables"):
        finish(root, record)


def _recorded(root: Store, opened: Opened) -> Record | None:
    """The record of a transaction, after its commit; None if it has changed nothing."""
    found = {folder: _transfer(root, opened, folder) for folder in records.touched(root, opened.id)}
    transfers = {folder: own for folder, own in found.items() if own is not None and not own.is_empty}
    if not transfers:
        return None
    made: list[Record] = []

    def edit(table: ManifestTable) -> Mapping[str, str | None] | None:
        if (known := _record_of(table, opened.id)) is not None:  # of a try whose answer was lost
            made.append(known)
            return None
        for other in records.records(table):
            if not other.finished and any(other.of(folder) for folder in transfers):
                finish(root, other)
        records.check_not_old(root, records.open_transaction(root, opened.id))
        for own in transfers.values():
            own.check()
        changes = tuple(_change(folder, opened, own) for folder, own in transfers.items())
        made.append(Record(records.last_number(table) + 1, opened.id, changes))
        return {LAST: str(made[-1].number), made[-1].key: made[-1].to_json()}

    def undo() -> None:
        for own in transfers.values():
            with logged(f"{own.fork}: removing files of a transaction that is not committed"):
                own.undo()

    with on_refusal(undo):
        change_metadata(root, edit)
    return made[-1]


def _transfer(root: Store, opened: Opened, folder: str) -> Transfer | None:
    """What a transaction has changed in a table; None if it has no branch of it."""
    store = _table(root, folder)
    try:
        branch = refs.branch(store, opened.branch)
    except VersionNotFoundError:
        if not records.is_made(root, opened.id, folder):
            return None
        raise CommitConflictError(
            f"{store.uri}: the table was dropped after the transaction {opened.id} had opened it; run the transaction again",
            retryable=True,
        ) from None
    fork = open_snapshot(store, version=branch.parent_version)
    own = _transfer_of(opened.id, folder, fork, open_snapshot(_branch(store, opened.branch)))
    for fragment_id in own.to_rewrite:
        optimize(Here(), reopened(own.head), {fragment_id}, _WITHOUT_DELETIONS, NO_OPTIONS)
    return replace(own, head=reopened(own.head)) if own.to_rewrite else own


def _transfer_of(id: str, folder: str, fork: Snapshot, head: Snapshot) -> Transfer:
    return Transfer(fork, head, str(uuid.uuid5(uuid.NAMESPACE_URL, f"{id}/{folder}")), {PART_OF: id})


def _change(folder: str, opened: Opened, own: Transfer) -> Change:
    return Change(folder, opened.branch, own.fork.version, own.fork.identity, own.head.version, own.head.identity)


def finish(root: Store, record: Record) -> None:
    """Bring the changes of a committed transaction to its tables, if they are not there, and remove its branches.

    Raises CommitConflictError if commits by the path of a table that came after the transaction cannot be brought together with it.
    """
    landed: dict[str, int | None] = {}
    try:
        for change in record.changes:
            landed[change.folder] = _land(root, record, change)
    except LanceError:
        now = _record_of(open_manifest(root), record.id)
        if now is not None and not now.finished:
            raise
        return  # another reader or writer was first, and has removed the branches

    def mark(table: ManifestTable) -> Mapping[str, str | None] | None:
        now = _record_of(table, record.id)
        return None if now is None or now.finished else records.changed(table, records.landed_in(now, landed))

    change_metadata(root, mark)
    with logged(f"{root.uri}: removing the branches of the transaction {record.id}"):
        _clear(root, record.id)


def _land(root: Store, record: Record, change: Change) -> int | None:
    """The version of a table that has the change of a transaction, which is committed if there is none.

    None if the table was dropped, or if that version was removed.
    """
    store = _table(root, change.folder)
    try:
        latest = open_snapshot(store)
        fork = open_pinned(store, change.fork, change.fork_identity)
    except (TableNotFoundError, VersionNotFoundError) as e:
        _LOG.warning("%s: a transaction has changed the table %s, which was dropped then: %s", root.uri, change.folder, e)
        return None
    head = open_pinned(_branch(store, change.branch), change.head, change.head_identity)
    own = _transfer_of(record.id, change.folder, fork, head)
    if latest.manifest.config.get(PART_OF) == record.id:
        done = own.done(latest)
        return None if done is None else done.version
    try:
        return own.commit().version
    except CommitConflictError as e:
        return _merged(fork, head, change, record, e)


def _set_properties(fork: Snapshot, head: Snapshot, record: Record) -> None:
    """Give the table the properties that a transaction has set, which a merge leaves out. It checks constraints itself."""
    before, after, latest = fork.manifest.config, head.manifest.config, reopened(fork)
    keys = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    missing = {key: after.get(key) for key in keys if after.get(key) != latest.manifest.config.get(key)}
    values = {key: value for key, value in missing.items() if not key.startswith(CONSTRAINT)}
    if values and latest.manifest.config.get(PART_OF) != record.id:
        commit_operation(fork.store, UpdateConfig(UpdateMap(values)), latest.version, {})


def _merged(fork: Snapshot, head: Snapshot, change: Change, record: Record, conflict: CommitConflictError) -> int:
    """The version with the changes of a transaction after commits by path that have changed the same: their rows stay.

    Raises CommitConflictError if nothing tells which rows are the same.
    """
    _set_properties(fork, head, record)
    try:
        options = WriteOptions(properties={PART_OF: record.id})
        return merge_branch(fork, change.branch, on_conflict="ours", options=options).version
    except (UnsupportedFeatureError, SchemaMismatchError) as e:
        raise CommitConflictError(
            f"{fork.root.uri}: the transaction {record.id} is committed, and its changes are in the branch {change.branch!r}; but "
            f"right after its commit, the table was changed by its path in a way that cannot be brought together with them: "
            f"{conflict} ({e}). Restore the table to version {change.fork}, or a version before those changes, and open it again",
            retryable=False,
        ) from e


def roll_back(root: Store, id: str) -> None:
    """Remove what an open transaction has changed. Raises InvalidOperationError if it is over."""
    records.open_transaction(root, id)
    record = _record_of(open_manifest(root), id)
    if record is not None and not record.finished:
        raise InvalidOperationError(f"{root.uri}: the transaction {id} is committed, and its tables are about to get its changes")
    _clear(root, id)


def _clear(root: Store, id: str) -> None:
    """Remove the branches and the files of a transaction."""
    for folder in records.touched(root, id):
        with contextlib.suppress(TableNotFoundError, VersionNotFoundError):
            Branches(open_snapshot(_table(root, folder))).remove(f"{refs.TRANSACTION_BRANCH}{id}")
        records.close(root, id, folder)
    records.end(root, id)


def _record_of(table: ManifestTable, id: str) -> Record | None:
    return next((record for record in records.records(table) if record.id == id), None)


def _table(root: Store, folder: str) -> Store:
    return root.at(f"{root.uri.rstrip('/')}/{folder}")


def _branch(table: Store, name: str) -> Store:
    return table.at(f"{table.uri}/{refs.branch_folder(name)}")
