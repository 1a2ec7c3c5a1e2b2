"""The commit of a transaction: retries, conflict checks and rebases until its version is written or a conflict is found.

Implements the commit protocol of the transaction specification. The transaction's uuid stays the same in all tries and identifies its
version, so that a transaction is not applied twice if it was committed but the store's response was lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from lance_spark.errors import (
    CommitConflictError,
    MissingFileError,
    TableNotFoundError,
    VersionNotFoundError,
    logged,
    on_refusal,
)
from lance_spark.metadata.locations import DATA
from lance_spark.metadata.manifest import Manifest, check_writable
from lance_spark.metadata.numbered_writes import APP_ID
from lance_spark.metadata.operations import Operation, Overwrite, Restore
from lance_spark.metadata.transaction import Transaction
from lance_spark.metadata.transaction import serialise as serialise_transaction
from lance_spark.storage.store import Store
from lance_spark.table.build.manifest_builder import NO_SETTINGS, TableSettings, build
from lance_spark.table.build.old_writers import highest_fragment_id
from lance_spark.table.commit.conflicts_since_read import judged
from lance_spark.table.commit.idempotence import is_done, with_numbers
from lance_spark.table.commit.misplaced_versions import is_still_latest, withdrawn
from lance_spark.table.commit.new_files import UNKNOWN_FILES, NewFiles, adds_data_files, check_files
from lance_spark.table.commit.put import put
from lance_spark.table.commit.rebase import read_snapshot, rebased
from lance_spark.table.commit.restore_check import check_restored
from lance_spark.table.commit.retry import COMMIT_TRIES, attempts, back_off
from lance_spark.table.commit.same_table import check_continues, made_anew, remove_dropped
from lance_spark.table.commit.shared_ids import separated, separation
from lance_spark.table.commit.unread_rows import begins_log, check_unread_rows, end_log, without_earlier_log
from lance_spark.table.maintenance.cleanup import auto_cleanup
from lance_spark.table.manifest_store.external import external
from lance_spark.table.versions.hint import move_hint
from lance_spark.table.versions.history import TRANSACTIONS
from lance_spark.table.versions.identity import Standing
from lance_spark.table.versions.snapshot import (
    VERSIONS,
    Snapshot,
    find_version,
    is_v2_path,
    latest_version,
    manifest_path,
    open_snapshot,
    reopened,
    standing,
)
from lance_spark.table.versions.spilled_lineage import needs_lineage, transaction_with_lineage, with_lineage


def commit(
    store: Store,
    transaction: Transaction,
    settings: TableSettings = NO_SETTINGS,
    base: Snapshot | None = None,
    files: NewFiles = UNKNOWN_FILES,
    latest_at: float | None = None,
    identity: str = "",
) -> Snapshot:
    """Commit `transaction` as the next version of the table at `store`. Read version 0 creates the table.

    `base` may be the snapshot of the read version, to avoid reading it again; `latest_at` is a monotonic time at which it was the latest
    version, None if it may not have been. Without `base`, `identity` is that of the read version (see `table.versions.identity`), "" if
    it is unknown. `settings` apply if the table is created or overwritten. The new files must exist (see `table.commit.new_files`);
    `files` describes them. A numbered transaction that was committed before is skipped, and the version of another transaction is returned
    (see `table.commit.idempotence`).

    Raises CommitConflictError if it conflicts with a version since the read version or if the table was dropped and made anew,
    TableAlreadyExistsError, TableNotFoundError if the table was dropped, and CommitStateUnknownError if it is unknown whether the version
    was written. Only in the last case, the files of the transaction must be kept.
    """
    if base is not None:
        identity = base.identity
    if APP_ID in transaction.properties and transaction.read_version:
        if base is None or latest_at is None or not is_still_latest(base, latest_at):
            listed_at = time.monotonic()
            latest = _latest(store, base, transaction.read_version)
            if latest is not None and latest.version == transaction.read_version and latest.identity == identity:
                base, latest_at = latest, listed_at
        else:
            latest = base
        numbered = None if latest is None else with_numbers(latest, transaction.properties)
        if latest is not None and numbered is not None and is_done(numbered, transaction.properties):
            return latest
        base = numbered if base is latest else base
    names: list[str] = []

    def give_up() -> None:
        _discard(store, names)
        if transaction.read_version:
            remove_dropped(store)

    with on_refusal(give_up):
        done = _commit(store, transaction, settings, base, files, names, latest_at, identity)
    # Transaction files of tries that were rebased later, or of a write that another job has already committed.
    _discard(store, [name for name in names if name != done.manifest.transaction_file])
    return done


def _discard(store: Store, names: Iterable[str]) -> None:
    """Delete transaction files. Failures are logged; a cleanup of the table removes the remaining files."""
    for name in names:
        with logged(f"{store.uri}: deleting the transaction file {name}"):
            store.delete(f"{TRANSACTIONS}/{name}")


def _commit(
    store: Store,
    transaction: Transaction,
    settings: TableSettings,
    base: Snapshot | None,
    files: NewFiles,
    names: list[str],
    latest_at: float | None,
    identity: str,
) -> Snapshot:
    """Commit the transaction. The names of all transaction files that are written are appended to `names`."""
    content, check = _prepared(store, transaction, base, files, names)
    seen, known, slot, rebase = transaction.read_version, transaction.read_version, 0.0, False
    for attempt in attempts():
        with store.turn(VERSIONS):
            started = found = time.monotonic()
            if base is not None and latest_at is not None and not attempt and is_still_latest(base, latest_at):
                current: Snapshot | None = base
                found = latest_at
            else:
                current = _latest(store, base, known)
            if current is not None:
                check_continues(current, transaction.read_version, identity, base)
            before, overlaps = judged(store, transaction, seen, current, base, files.schema)
            if before:
                return before
            seen, rebase = current.version if current else 0, rebase or overlaps
            # Existing fragments do not matter to an operation that replaces all of them.
            keeps = not isinstance(transaction.operation, Overwrite | Restore)
            if current and keeps and len(current.manifest.lazy_fragments.shared_ids):
                _separate(store, current)
                done = None
            else:
                ready = transaction
                if rebase and current:
                    ready = rebased(transaction, read_snapshot(store, transaction, base), current)
                    content = _put_transaction(store, ready, names)
                done = _next(store, current, ready, content, settings, check)
        if done and not withdrawn(done, current, time.monotonic() - found):
            names.remove(done.manifest.transaction_file)
            if isinstance(transaction.operation, Restore):
                check_restored(done, transaction.operation.version)
            _follow_up(done)
            return done
        known = seen + 1
        slot = slot or time.monotonic() - started
        back_off(attempt, slot)
    what = f"other writers committed first in all {attempt + 1} tries; run the operation again"
    raise CommitConflictError(f"{store.uri}: {what}", retryable=True)


def _next(
    store: Store, current: Snapshot | None, transaction: Transaction, content: bytes, settings: TableSettings, check: Callable[[], None]
) -> Snapshot | None:
    """Write the version after `current` that `transaction` makes. Returns None if another writer was first.

    `content` is the serialised transaction. `check` is called right before the write.
    """
    manifest = current.manifest if current else None
    try:
        if current is not None and needs_lineage(transaction.operation, current.manifest):
            manifest = with_lineage(current.manifest, current.locations)
            if manifest is not current.manifest:
                transaction = transaction_with_lineage(transaction, current.locations)
        source = _restored(store, transaction.operation, manifest)
        manifest = replace(build(manifest, transaction, settings, time.time_ns(), source), transaction=content)
        is_new_log = begins_log(current.manifest if current else None, manifest, transaction.operation)
        if current is not None:
            check_unread_rows(current, manifest, is_new_log)
        end_log(current, manifest, is_new_log, store)
        if is_new_log:
            manifest = without_earlier_log(store, manifest)
        check()
    except (MissingFileError, VersionNotFoundError) as e:
        if current is not None and standing(current) is not Standing.SAME:
            raise made_anew(store, current.version) from e
        raise
    path = manifest_path(manifest.version, v2=current is None or is_v2_path(current.path))
    return Snapshot(store, manifest, path) if put(store, manifest, path, transaction) else None


def commit_next(
    store: Store,
    transaction: Transaction,
    base: Snapshot | None,
    files: NewFiles = UNKNOWN_FILES,
    settings: TableSettings = NO_SETTINGS,
) -> Snapshot | None:
    """Commit `transaction` as the version right after `base`, for which it was prepared (None: it creates the table), without a rebase.

    Returns None if another writer has committed a version since `base`, or has dropped the table and made it anew. Raises
    CommitStateUnknownError, as `commit`.
    """
    names: list[str] = []
    with on_refusal(lambda: _discard(store, names)):
        content, check = _prepared(store, transaction, base, files, names)
        # A cleanup may have removed the next version. Its name is then free, and the put alone would succeed.
        started = time.monotonic()
        latest = _latest(store, base, transaction.read_version)
        read = (0, "") if base is None else (base.version, base.identity)
        overtaken = ((0, "") if latest is None else (latest.version, latest.identity)) != read
        done = None if overtaken else _next(store, base, transaction, content, settings, check)
    if done is None or withdrawn(done, base, time.monotonic() - started):
        _discard(store, names)
        return None
    _follow_up(done)
    return done


def _prepared(
    store: Store, transaction: Transaction, base: Snapshot | None, files: NewFiles, names: list[str]
) -> tuple[bytes, Callable[[], None]]:
    """Write the transaction file, and make the names of new data files durable; for the result, see `_next`."""
    content = _put_transaction(store, transaction, names)
    manifest = base.manifest if base is not None else None
    check = check_files(store, transaction, manifest, files)
    if external(store) is None:
        store.require_put_if_absent(f"{TRANSACTIONS}/{transaction.file_name}")
    # Tasks sync the contents of their files; one sync of the folder makes all names durable.
    if adds_data_files(transaction.operation, manifest):
        store.sync(DATA)
    return content, check


def with_own_ids(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot. If its fragments share ids, commit a version in which they do not, and return that."""
    while len(snapshot.manifest.lazy_fragments.shared_ids):
        _separate(snapshot.store, snapshot)
        snapshot = reopened(snapshot)
    return snapshot


def _separate(store: Store, current: Snapshot) -> None:
    """Commit a version in which all fragments have different ids, unless another writer is first."""
    names: list[str] = []
    transaction = Transaction(current.version, separation(current, highest_fragment_id(current.manifest) + 1))
    content = _put_transaction(store, transaction, names)
    started = time.monotonic()
    done = _next(store, current, transaction, content, NO_SETTINGS, lambda: None)
    if done and not withdrawn(done, current, time.monotonic() - started):
        _follow_up(done)
    else:
        _discard(store, names)


def _put_transaction(store: Store, transaction: Transaction, names: list[str]) -> bytes:
    """Write the transaction file, append its name to `names`, and return its content.

    It need not survive a crash of the machine, since the manifest has the same content, which is durable. Older readers check for conflicts
    by the file alone, but no writer that read an earlier version survives the crash.
    """
    content = serialise_transaction(transaction)
    names.append(transaction.file_name)
    store.put(f"{TRANSACTIONS}/{transaction.file_name}", content, durable=False)
    return content


def _follow_up(snapshot: Snapshot) -> None:
    """Complete the commit of `snapshot`. Never raises, since the version exists and its files must stay."""
    with logged(f"{snapshot}: syncing the name of the version"):
        snapshot.store.sync(VERSIONS)
    move_hint(snapshot.store, snapshot.version)
    with logged(f"{snapshot}: cleaning up after the commit"):
        auto_cleanup(snapshot)


def commit_operation(
    store: Store, operation: Operation, read_version: int | None, properties: Mapping[str, str], settings: TableSettings = NO_SETTINGS
) -> Snapshot:
    """Commit an operation that was prepared for `read_version`. Only Overwrite and Restore accept None, which means the latest version.

    The new files are opened and compared with the operation. Raises the errors of `commit`, and InvalidOperationError if the operation does
    not fit the table or its files.
    """
    if not isinstance(operation, Operation):
        raise TypeError(f"the operation must be one of lance_spark.metadata.operations, not {type(operation).__name__}")
    if read_version is None:
        if not isinstance(operation, Overwrite | Restore):
            raise ValueError(f"the operation {type(operation).__name__} needs read_version, the version that it was prepared for")
        base = _latest(store, None, 0)
        read_version = base.version if base else 0
    else:
        base = find_version(store, read_version) if read_version else None
        if isinstance(operation, Overwrite) and base is not None and operation.schema == base.manifest.schema:
            operation = replace(operation, keeps_columns=True)
    return commit(store, Transaction(read_version, operation, properties=properties), settings, base, NewFiles(by_hand=True))


def _latest(store: Store, base: Snapshot | None, known: int) -> Snapshot | None:
    """Open the latest version; None if there is no table. `known` is a version that existed, even if a stale listing lacks it."""
    for _ in range(COMMIT_TRIES):
        try:
            latest, _ = latest_version(store)
        except TableNotFoundError:
            latest = 0
        if known > latest and (newer := find_version(store, known)) is not None:
            return newer
        if not latest:
            return None
        if base is not None and latest == base.version and standing(base) is Standing.SAME:
            return base
        if (found := find_version(store, latest)) is not None:
            return found
        # After the listing, a newer version was committed and a cleanup removed this one.
    raise CommitConflictError(
        f"{store.uri}: cleanups removed the latest version in all {COMMIT_TRIES} tries to open it; run the operation again", retryable=True
    )


def _restored(store: Store, operation: Operation, current: Manifest | None) -> Manifest | None:
    """The manifest that a Restore brings back; None for other operations."""
    if not isinstance(operation, Restore):
        return None
    restored = open_snapshot(store, version=operation.version)
    check_writable(restored.manifest, store.uri)
    return separated(restored, highest_fragment_id(current) + 1 if current else 0)
