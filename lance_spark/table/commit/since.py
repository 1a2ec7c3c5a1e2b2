"""What others committed since the version that a transaction was prepared for, and whether it can follow that.

Whether a version is ours is told by the transaction's uuid, which stays the same through all tries.
"""

from __future__ import annotations

from lance_spark.errors import CommitConflictError, TableAlreadyExistsError, TableNotFoundError
from lance_spark.metadata.manifest import check_writable
from lance_spark.metadata.operations import CreateIndex, Delete, Restore, Update
from lance_spark.metadata.transaction import Transaction
from lance_spark.schema.schema import Schema
from lance_spark.storage.store import Store
from lance_spark.table.commit.conflicts import Outcome, judge
from lance_spark.table.commit.idempotence import covers
from lance_spark.table.commit.unseen import fits, follows_unseen
from lance_spark.table.versions.history import transaction_of
from lance_spark.table.versions.snapshot import Snapshot, find_version


def judged(
    store: Store, transaction: Transaction, seen: int, current: Snapshot | None, base: Snapshot | None, written: Schema | None
) -> tuple[Snapshot | None, bool]:
    """Judge `transaction` by every version after `seen`.

    `base` is the version that it was prepared for, if it is at hand, and `written` the schema that the new data files have, if it is
    known. Returns the version that is the transaction itself, or makes it superfluous, if there is one, and whether it must be rebased.
    Raises CommitConflictError, TableAlreadyExistsError or TableNotFoundError if it cannot follow.
    """
    if current is None:
        if transaction.read_version:
            raise TableNotFoundError(f"there is no Lance table at {store.uri} any more; version {transaction.read_version} was read")
        return None, False
    check_writable(current.manifest, store.uri)
    if current.version < seen:
        raise CommitConflictError(f"{store.uri}: version {seen} was read, but now the latest is {current.version}", retryable=False)
    done: Snapshot | None = None
    conflict: CommitConflictError | TableAlreadyExistsError | None = None
    rebase, gone = False, []
    for version in range(seen + 1, current.version + 1):
        snapshot = current if version == current.version else find_version(store, version)
        if snapshot is None:
            gone.append(version)
            continue
        theirs = transaction_of(snapshot)
        if theirs.uuid == transaction.uuid:
            return snapshot, False
        if covers(theirs, transaction):
            done = snapshot
        elif done and isinstance(theirs.operation, Restore) and theirs.operation.version < done.version:
            done = None
        try:
            rebase = _check(store, transaction, version, theirs) or rebase
        except (CommitConflictError, TableAlreadyExistsError) as e:
            conflict = conflict or e
    if done is not None:
        return done, False
    if conflict is not None:
        raise conflict
    if gone:
        read = base if base is not None and base.version == transaction.read_version else find_version(store, transaction.read_version)
        if not follows_unseen(transaction.operation, read.manifest if read else None, current.manifest, written):
            raise _unseen(store, transaction, gone)
    if written is not None and not fits(written, current.manifest):
        what = f"the data was written for the columns of version {transaction.read_version}, those of version {current.version} are others"
        raise CommitConflictError(f"{store.uri}: {what}; run the operation again", retryable=True)
    return None, rebase or (bool(gone) and isinstance(transaction.operation, Delete | Update | CreateIndex))


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


def _unseen(store: Store, transaction: Transaction, gone: list[int]) -> CommitConflictError:
    ours = f"this {type(transaction.operation).__name__}, prepared on version {transaction.read_version}"
    what = f"versions {gone[0]} to {gone[-1]} were cleaned up meanwhile, and the table does not show that {ours}, can follow them"
    return CommitConflictError(f"{store.uri}: {what}; run the operation again", retryable=True)
