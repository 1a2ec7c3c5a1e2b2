"""Committing a transaction: the one put that makes a new version visible, and what to do when others commit at the same time.

Implements the commit protocol of the transaction specification. Whether a version is ours is told by the transaction's uuid, which
stays the same through all tries: a transaction that landed while the store's answer was lost is found, not applied twice.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from lance_spark.errors import CommitConflictError, CommitStateUnknownError, LanceError, TableNotFoundError, logged
from lance_spark.metadata.manifest import Manifest
from lance_spark.metadata.operations import Operation, Overwrite, Restore
from lance_spark.metadata.transaction import Transaction
from lance_spark.metadata.transaction import serialise as serialise_transaction
from lance_spark.storage.store import Store
from lance_spark.table.build.manifest_builder import NO_SETTINGS, TableSettings, build
from lance_spark.table.build.old_writers import highest_fragment_id
from lance_spark.table.commit.gap import withdrawn
from lance_spark.table.commit.idempotence import done_before
from lance_spark.table.commit.new_files import UNKNOWN_FILES, NewFiles, check_files
from lance_spark.table.commit.put import put
from lance_spark.table.commit.rebase import read_snapshot, rebased
from lance_spark.table.commit.restored import check_restored
from lance_spark.table.commit.since import judged
from lance_spark.table.commit.twins import separated, separation
from lance_spark.table.maintenance.cleanup import auto_cleanup
from lance_spark.table.manifest_store.external import external
from lance_spark.table.versions.hint import move_hint
from lance_spark.table.versions.history import TRANSACTIONS
from lance_spark.table.versions.snapshot import Snapshot, find_version, is_v2_path, list_versions, manifest_path, open_snapshot, reopened

TRIES = 20
PATIENCE_S = 120.0
"""A commit that other writers overtake gives up after so many tries and so long a time, whichever comes last."""
_LONGEST_WAIT = 2.0


def commit(
    store: Store,
    transaction: Transaction,
    settings: TableSettings = NO_SETTINGS,
    base: Snapshot | None = None,
    files: NewFiles = UNKNOWN_FILES,
) -> Snapshot:
    """Make `transaction` the next version of the table at `store`; read version 0 makes the table.

    `base` may be the snapshot of the read version, which is then not read again; `settings` matter where the table is made or overwritten.
    The new files must be there (see `table.commit.new_files`); what is known of them is in `files`.
    Raises CommitConflictError when a version since the read version stands against it, TableAlreadyExistsError, and
    CommitStateUnknownError when the store does not tell whether the version was written. After the latter, and only then, the
    files that the transaction names must stay. A transaction that is numbered (see `table.commit.idempotence`) and was done before is left
    out; then the version returned is another's.
    """
    if done := done_before(store, transaction):
        return done
    names: list[str] = []
    try:
        done = _commit(store, transaction, settings, base, files, names)
    except CommitStateUnknownError:
        raise
    except (LanceError, ValueError):
        _discard(store, names)
        raise
    # What is left of tries that were overtaken and then rebased, or of a write that another job has done.
    _discard(store, [name for name in names if name != done.manifest.transaction_file])
    return done


def _discard(store: Store, names: Iterable[str]) -> None:
    """Delete transaction files. Best effort: what is left behind is found by cleaning up the table."""
    for name in names:
        with logged(f"{store.uri}: deleting the transaction file {name}"):
            store.delete(f"{TRANSACTIONS}/{name}")


def _commit(
    store: Store, transaction: Transaction, settings: TableSettings, base: Snapshot | None, files: NewFiles, names: list[str]
) -> Snapshot:
    """Commit the transaction; the names of the transaction files that this takes are put into `names`."""
    content = _put_transaction(store, transaction, names)
    check = check_files(store, transaction, base.manifest if base is not None else None, files)
    if external(store) is None:
        store.require_put_if_absent(f"{TRANSACTIONS}/{transaction.file_name}")
    seen, known, slot, rebase = transaction.read_version, transaction.read_version, 0.0, False
    begun, attempt = time.monotonic(), 0
    while attempt < TRIES or time.monotonic() < begun + PATIENCE_S:
        started = time.monotonic()
        current = _latest(store, base, known)
        done, overlaps = judged(store, transaction, seen, current, base, files.schema)
        if done:
            return done
        seen, rebase = current.version if current else 0, rebase or overlaps
        # What replaces all fragments is not hindered by those that there are.
        keeps = not isinstance(transaction.operation, Overwrite | Restore)
        if current and keeps and len(current.manifest.lazy_fragments.shared_ids):
            _separate(store, current)
        else:
            ready = transaction
            if rebase and current:
                ready = rebased(transaction, read_snapshot(store, transaction, base), current)
                content = _put_transaction(store, ready, names)
            done = _next(store, current, ready, content, settings, check)
            if done and not withdrawn(done, time.monotonic() - started):
                names.remove(done.manifest.transaction_file)
                if isinstance(transaction.operation, Restore):
                    check_restored(done, transaction.operation.version)
                _follow_up(done)
                return done
        known = seen + 1
        slot = slot or min(time.monotonic() - started, 1.0)
        # Waits are drawn from ever more slots of the length of one try, so that writers who collided spread out.
        time.sleep(min(slot * random.uniform(0, 2 ** min(attempt, 4)), _LONGEST_WAIT))
        attempt += 1
    raise CommitConflictError(f"{store.uri}: {attempt} tries to commit were all overtaken by other writers", retryable=True)


def _next(
    store: Store, current: Snapshot | None, transaction: Transaction, content: bytes, settings: TableSettings, check: Callable[[], None]
) -> Snapshot | None:
    """The version that `transaction`, which is `content` when serialised, makes of `current`; None if another writer was first.

    `check` is what comes last before that is tried.
    """
    manifest = current.manifest if current else None
    source = _restored(store, transaction.operation, manifest)
    manifest = replace(build(manifest, transaction, settings, time.time_ns(), source), transaction=content)
    check()
    path = manifest_path(manifest.version, v2=current is None or is_v2_path(current.path))
    return Snapshot(store, manifest, path) if put(store, manifest, path, transaction) else None


def commit_next(store: Store, transaction: Transaction, base: Snapshot | None, files: NewFiles = UNKNOWN_FILES) -> Snapshot | None:
    """Make `transaction` the version right after `base`, for which it was prepared (None: the first version of a table).

    Returns None if another writer has committed a version since `base`: nothing is rebased. Raises CommitStateUnknownError, as `commit`.
    """
    names: list[str] = []
    content = _put_transaction(store, transaction, names)
    check = check_files(store, transaction, base.manifest if base is not None else None, files)
    try:
        if external(store) is None:
            store.require_put_if_absent(f"{TRANSACTIONS}/{transaction.file_name}")
        # A cleanup may have removed the version that is next, which leaves its name free.
        started = time.monotonic()
        latest = _latest(store, base, transaction.read_version)
        overtaken = (latest.version if latest else 0) != transaction.read_version
        done = None if overtaken else _next(store, base, transaction, content, NO_SETTINGS, check)
    except CommitStateUnknownError:
        raise
    except (LanceError, ValueError):
        _discard(store, names)
        raise
    if done is None or withdrawn(done, time.monotonic() - started):
        _discard(store, names)
        return None
    _follow_up(done)
    return done


def with_own_ids(snapshot: Snapshot) -> Snapshot:
    """The snapshot; or if fragments of it share an id, the latest version, in which they have got different ones."""
    while len(snapshot.manifest.lazy_fragments.shared_ids):
        _separate(snapshot.store, snapshot)
        snapshot = reopened(snapshot)
    return snapshot


def _separate(store: Store, current: Snapshot) -> None:
    """Commit a version in which all fragments have different ids, unless another writer is first."""
    names: list[str] = []
    transaction = Transaction(current.version, separation(current, highest_fragment_id(current.manifest) + 1))
    content = _put_transaction(store, transaction, names)
    if done := _next(store, current, transaction, content, NO_SETTINGS, lambda: None):
        _follow_up(done)
    else:
        _discard(store, names)


def _put_transaction(store: Store, transaction: Transaction, names: list[str]) -> bytes:
    """Write the transaction's file, noting its name, and return its content."""
    content = serialise_transaction(transaction)
    names.append(transaction.file_name)
    store.put(f"{TRANSACTIONS}/{transaction.file_name}", content)
    return content


def _follow_up(snapshot: Snapshot) -> None:
    """What remains to be done after the commit of `snapshot`. Never raises: the version is there, and its files must stay."""
    move_hint(snapshot.store, snapshot.version)
    with logged(f"{snapshot}: cleaning up after the commit"):
        auto_cleanup(snapshot)


def commit_operation(
    store: Store, operation: Operation, read_version: int | None, properties: Mapping[str, str], settings: TableSettings = NO_SETTINGS
) -> Snapshot:
    """Commit an operation that was prepared for `read_version`; None, for Overwrite and Restore only, means whatever is there now.

    Its new files are opened and compared with what the operation says of them. Raises what `commit` raises, and InvalidOperationError for
    an operation that does not fit the table.
    """
    if not isinstance(operation, Operation):
        raise TypeError(f"the operation must be one of lance_spark.metadata.operations, not {type(operation).__name__}")
    if read_version is None:
        if not isinstance(operation, Overwrite | Restore):
            raise ValueError(f"the operation {type(operation).__name__} needs the version that it was prepared for, read_version")
        base = _latest(store, None, 0)
        read_version = base.version if base else 0
    else:
        base = find_version(store, read_version) if read_version else None
    return commit(store, Transaction(read_version, operation, properties=properties), settings, base, NewFiles(by_hand=True))


def _latest(store: Store, base: Snapshot | None, known: int) -> Snapshot | None:
    """The latest version; None if there is no table. `known` is a version that there was, however old a listing is."""
    for _ in range(TRIES):
        try:
            versions = list_versions(store)
        except TableNotFoundError:
            versions = {}
        if known > max(versions, default=0) and (newer := find_version(store, known)) is not None:
            return newer
        if not versions:
            return None
        if base is not None and max(versions) == base.version:
            return base
        if (latest := find_version(store, max(versions))) is not None:
            return latest
        # It was overtaken and cleaned up since it was listed.
    raise CommitConflictError(f"{store.uri}: the latest version is cleaned up again and again before it can be opened", retryable=True)


def _restored(store: Store, operation: Operation, current: Manifest | None) -> Manifest | None:
    """The version that a Restore goes back to."""
    if not isinstance(operation, Restore):
        return None
    return separated(open_snapshot(store, version=operation.version), highest_fragment_id(current) + 1 if current else 0)
