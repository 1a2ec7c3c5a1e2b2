"""Committing a transaction: the one put that makes a new version visible, and what to do when others commit at the same time.

Implements the commit protocol of the transaction specification. Whether a version is ours is told by the transaction's uuid, which
stays the same through all tries: a transaction that landed while the store's answer was lost is found, not applied twice.
"""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from lance_spark.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    LanceError,
    StorageError,
    TableAlreadyExistsError,
    TableNotFoundError,
    VersionNotFoundError,
    logged,
)
from lance_spark.metadata.manifest import Manifest, check_writable, serialise
from lance_spark.metadata.operations import Operation, Overwrite, Restore
from lance_spark.metadata.transaction import Transaction
from lance_spark.metadata.transaction import serialise as serialise_transaction
from lance_spark.storage.store import Store
from lance_spark.table.build.manifest_builder import TableSettings, build
from lance_spark.table.commit.conflicts import Outcome, judge
from lance_spark.table.commit.idempotence import covers, done_before
from lance_spark.table.commit.rebase import rebased
from lance_spark.table.commit.restored import check_restored
from lance_spark.table.maintenance.cleanup import auto_cleanup
from lance_spark.table.manifest_store.external import external, put_manifest
from lance_spark.table.versions.hint import move_hint
from lance_spark.table.versions.history import TRANSACTIONS, transaction_of
from lance_spark.table.versions.snapshot import Snapshot, is_v2_path, list_versions, manifest_path, open_snapshot

TRIES = 20
PATIENCE_S = 120.0
"""A commit that other writers overtake gives up after so many tries and so long a time, whichever comes last."""
NO_SETTINGS = TableSettings()
_LOST_ANSWERS = 3
_LONGEST_WAIT = 2.0
_REFUSALS = (errno.EACCES, errno.EPERM, errno.ENOENT)
"""Answers that prove that a remote store did nothing."""


def commit(store: Store, transaction: Transaction, settings: TableSettings = NO_SETTINGS, base: Snapshot | None = None) -> Snapshot:
    """Make `transaction` the next version of the table at `store`; read version 0 makes the table.

    `base` may be the snapshot of the read version, which is then not read again; `settings` matter where the table is made or overwritten.
    Raises CommitConflictError when a version since the read version stands against it, TableAlreadyExistsError, and
    CommitStateUnknownError when the store does not tell whether the version was written. After the latter, and only then, the
    files that the transaction names must stay. A transaction that is numbered (see `table.commit.idempotence`) and was done before is left
    out; then the version returned is another's.
    """
    if done := done_before(store, transaction):
        return done
    names: list[str] = []
    try:
        done = _commit(store, transaction, settings, base, names)
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


def _commit(store: Store, transaction: Transaction, settings: TableSettings, base: Snapshot | None, names: list[str]) -> Snapshot:
    """Commit the transaction; the names of the transaction files that this takes are put into `names`."""
    content = _put_transaction(store, transaction, names)
    if external(store) is None:
        store.require_put_if_absent(f"{TRANSACTIONS}/{transaction.file_name}")
    seen, known, slot, rebase = transaction.read_version, transaction.read_version, 0.0, False
    begun, attempt = time.monotonic(), 0
    while attempt < TRIES or time.monotonic() < begun + PATIENCE_S:
        started = time.monotonic()
        current = _latest(store, base, known)
        landed, overlaps = _check_since(store, transaction, seen, current)
        if landed:
            return landed
        seen, rebase = current.version if current else 0, rebase or overlaps
        ready = transaction
        if rebase and current:
            ready = rebased(transaction, _read_snapshot(store, transaction, base), current)
            content = _put_transaction(store, ready, names)
        source = _restored(store, transaction.operation)
        manifest = build(current.manifest if current else None, ready, settings, time.time_ns(), source)
        manifest = replace(manifest, transaction=content)
        path = manifest_path(manifest.version, v2=current is None or is_v2_path(current.path))
        if _put(store, manifest, path, transaction):
            done = Snapshot(store, manifest, path)
            names.remove(manifest.transaction_file)
            if isinstance(transaction.operation, Restore):
                check_restored(done, transaction.operation.version)
            _follow_up(done)
            return done
        known = manifest.version
        slot = slot or min(time.monotonic() - started, 1.0)
        # Waits are drawn from ever more slots of the length of one try, so that writers who collided spread out.
        time.sleep(min(slot * random.uniform(0, 2 ** min(attempt, 4)), _LONGEST_WAIT))
        attempt += 1
    raise CommitConflictError(f"{store.uri}: {attempt} tries to commit were all overtaken by other writers", retryable=True)


def _put_transaction(store: Store, transaction: Transaction, names: list[str]) -> bytes:
    """Write the transaction's file, noting its name, and return its content."""
    content = serialise_transaction(transaction)
    names.append(transaction.file_name)
    store.put(f"{TRANSACTIONS}/{transaction.file_name}", content)
    return content


def _put(store: Store, manifest: Manifest, path: str, transaction: Transaction) -> bool:
    """Whether the version at `path` is ours now; if not, it is another's.

    An answer that is lost is asked for again with the same manifest, so that the version is never left in doubt: raises
    CommitStateUnknownError if it cannot be known, and StorageError if it is certain that nothing was written.
    """
    data, certain = serialise(manifest), store.location.kind in ("file", "memory")
    lost: StorageError | None = None
    for _ in range(_LOST_ANSWERS):
        try:
            put_manifest(store, manifest.version, path, data)
            return True
        except FileExistsError:
            # Object stores' clients try again inside, and may have met our own file.
            return not certain and _landed(store, path, data, transaction, lost or StorageError("there is such a version"))
        except StorageError as e:
            if _landed(store, path, data, transaction, e):
                return True
            # A refusal says nothing of an earlier request, which may still be on its way.
            if certain or (lost is None and e.errno in _REFUSALS):
                raise
            lost = e
    assert lost is not None
    raise _unknown(store, path, transaction, lost) from lost


def _follow_up(snapshot: Snapshot) -> None:
    """What remains to be done after the commit of `snapshot`. Never raises: the version is there, and its files must stay."""
    move_hint(snapshot.store, snapshot.version)
    with logged(f"{snapshot}: cleaning up after the commit"):
        auto_cleanup(snapshot)


def commit_operation(
    store: Store, operation: Operation, read_version: int | None, properties: Mapping[str, str], settings: TableSettings = NO_SETTINGS
) -> Snapshot:
    """Commit an operation that was prepared for `read_version`; None, for Overwrite and Restore only, means whatever is there now.

    Raises what `commit` raises, and ValueError for an operation that does not fit the table.
    """
    if not isinstance(operation, Operation):
        raise TypeError(f"the operation must be one of lance_spark.metadata.operations, not {type(operation).__name__}")
    if read_version is None:
        if not isinstance(operation, Overwrite | Restore):
            raise ValueError(f"the operation {type(operation).__name__} needs the version that it was prepared for, read_version")
        latest = _latest(store, None, 0)
        read_version = latest.version if latest else 0
    return commit(store, Transaction(read_version, operation, properties=properties), settings)


def _latest(store: Store, base: Snapshot | None, known: int) -> Snapshot | None:
    """The latest version; None if there is no table. `known` is a version that there was, however old a listing is."""
    try:
        versions = list_versions(store)
    except TableNotFoundError:
        versions = {}
    if known > max(versions, default=0) and (newer := _open(store, known)) is not None:
        return newer
    if not versions:
        return None
    if base is not None and max(versions) == base.version:
        return base
    return open_snapshot(store, version=max(versions))


def _read_snapshot(store: Store, transaction: Transaction, base: Snapshot | None) -> Snapshot:
    """The version that the transaction was prepared for."""
    if base is not None and base.version == transaction.read_version:
        return base
    try:
        return open_snapshot(store, version=transaction.read_version)
    except VersionNotFoundError as e:
        raise CommitConflictError(f"{store.uri}: version {transaction.read_version} was read, but is gone", retryable=True) from e


def _restored(store: Store, operation: Operation) -> Manifest | None:
    return open_snapshot(store, version=operation.version).manifest if isinstance(operation, Restore) else None


def _check_since(store: Store, transaction: Transaction, seen: int, current: Snapshot | None) -> tuple[Snapshot | None, bool]:
    """Judge `transaction` by every version after `seen`.

    Returns the version that is the transaction itself, if it has landed, and whether it must be rebased.
    """
    rebase = False
    if current is None:
        if transaction.read_version:
            raise TableNotFoundError(f"there is no Lance table at {store.uri} any more; version {transaction.read_version} was read")
        return None, False
    check_writable(current.manifest, store.uri)
    if current.version < seen:
        raise CommitConflictError(f"{store.uri}: version {seen} was read, but now the latest is {current.version}", retryable=False)
    for version in range(seen + 1, current.version + 1):
        theirs = transaction_of(current if version == current.version else _open(store, version))
        if theirs.uuid == transaction.uuid or covers(theirs, transaction):
            return current if version == current.version else open_snapshot(store, version=version), False
        rebase = _check(store, transaction, version, theirs) or rebase
    return None, rebase


def _check(store: Store, transaction: Transaction, version: int, theirs: Transaction) -> bool:
    """Whether `transaction` must be rebased to follow `theirs`. Raises CommitConflictError if it cannot."""
    if transaction.read_version == 0:
        raise TableAlreadyExistsError(f"there is a Lance table at {store.uri} already")
    rule = judge(transaction.operation, theirs.operation)
    if rule.outcome in (Outcome.COMPATIBLE, Outcome.REBASE):
        return rule.outcome is Outcome.REBASE
    ours, other = type(transaction.operation).__name__, type(theirs.operation).__name__
    reason = f", because {rule.when.__doc__}" if rule.when else ""
    retryable = rule.outcome is not Outcome.INCOMPATIBLE
    advice = "run the operation again" if retryable else "the table is no longer what the operation was prepared for"
    what = f"this {ours}, prepared on version {transaction.read_version}, cannot follow the {other} of version {version}"
    raise CommitConflictError(f"{store.uri}: {what}{reason}; {advice}", retryable=retryable)


def _open(store: Store, version: int) -> Snapshot | None:
    try:
        return open_snapshot(store, version=version)
    except (VersionNotFoundError, TableNotFoundError):
        return None


def _landed(store: Store, path: str, data: bytes, transaction: Transaction, error: StorageError) -> bool:
    """After a put of `data` that failed with `error`: whether it is what stands at `path`."""
    try:
        if (manifests := external(store)) is not None:
            manifests.latest()  # puts the manifest in place, if the database took it
        return store.read(path) == data
    except FileNotFoundError:
        return False
    except Exception as e:
        # Any other error would say that the commit failed, and its files would be deleted.
        raise _unknown(store, path, transaction, error) from e


def _unknown(store: Store, path: str, transaction: Transaction, error: StorageError) -> CommitStateUnknownError:
    told = f"it took place if {path} names the transaction {transaction.uuid}"
    return CommitStateUnknownError(f"{store.uri}: whether the commit took place is not known; {told}. The store said: {error}")
