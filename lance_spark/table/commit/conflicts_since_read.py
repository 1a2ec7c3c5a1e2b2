"""The check of a transaction against the versions that were committed since its read version.

A version is our own if it has the transaction's uuid, which stays the same in all tries.
"""

from __future__ import annotations

from lance_spark.errors import CommitConflictError, TableAlreadyExistsError, TableNotFoundError
from lance_spark.metadata.manifest import check_writable
from lance_spark.metadata.operations import CreateIndex, Delete, Restore, Update
from lance_spark.metadata.transaction import Transaction
from lance_spark.schema.schema import Schema
from lance_spark.storage.store import Store
from lance_spark.table.commit.cleaned_up_versions import fits, fits_after_cleanup
from lance_spark.table.commit.conflicts import Outcome, judge
from lance_spark.table.commit.idempotence import covers, is_done
from lance_spark.table.versions.history import find_transaction, transaction_of
from lance_spark.table.versions.snapshot import Snapshot, find_version


def judged(
    store: Store, transaction: Transaction, seen: int, current: Snapshot | None, base: Snapshot | None, written: Schema | None
) -> tuple[Snapshot | None, bool]:
    """Check `transaction` against every version after `seen`.

    `base` is the read version, if it is open, and `written` the schema of the new data files, if it is known. Returns the version that
    already contains the transaction or makes it redundant (or None), and whether the transaction must be rebased. Raises
    CommitConflictError, TableAlreadyExistsError or TableNotFoundError if it cannot be committed.
    """
    if current is None:
        if transaction.read_version:
            raise TableNotFoundError(f"the Lance table at {store.uri} was removed after version {transaction.read_version} was read")
        return None, False
    check_writable(current.manifest, store.uri)
    if current.version < seen:
        raise CommitConflictError(
            f"{store.uri}: version {seen} was read, but the latest version is now {current.version}; open the table again", retryable=False
        )
    done: int | None = None
    conflict: CommitConflictError | TableAlreadyExistsError | None = None
    rebase, gone = False, []
    for version in range(seen + 1, current.version + 1):
        theirs = transaction_of(current) if version == current.version else find_transaction(store, version)
        if theirs is None:
            gone.append(version)
            continue
        if theirs.uuid == transaction.uuid:
            return _opened(store, version, current), False
        if covers(theirs, transaction):
            done = version
        elif done and isinstance(theirs.operation, Restore) and theirs.operation.version < done:
            done = None
        try:
            rebase = _check(store, transaction, version, theirs) or rebase
        except (CommitConflictError, TableAlreadyExistsError) as e:
            conflict = conflict or e
    if done is not None:
        return _opened(store, done, current), False
    if gone and is_done(current, transaction.properties):
        return current, False
    if conflict is not None:
        raise conflict
    if gone:
        read = base if base is not None and base.version == transaction.read_version else find_version(store, transaction.read_version)
        if not fits_after_cleanup(transaction.operation, read.manifest if read else None, current.manifest, written):
            raise _unseen(store, transaction, gone)
    if written is not None and not fits(written, current.manifest.schema):  # pragma: no cover: the rules refuse what they know of first
        what = f"the data was written for version {transaction.read_version}, but the columns have changed in version {current.version}"
        raise CommitConflictError(f"{store.uri}: {what}; run the operation again", retryable=True)
    return None, rebase or (bool(gone) and isinstance(transaction.operation, Delete | Update | CreateIndex))


def _opened(store: Store, version: int, current: Snapshot) -> Snapshot:
    """The version, or `current` if it was removed meanwhile."""
    return current if version == current.version else find_version(store, version) or current


def _check(store: Store, transaction: Transaction, version: int, theirs: Transaction) -> bool:
    """True if `transaction` must be rebased because of `theirs`. Raises CommitConflictError if they conflict."""
    if transaction.read_version == 0:
        raise TableAlreadyExistsError(f"a Lance table already exists at {store.uri}")
    rule = judge(transaction.operation, theirs.operation)
    if rule.outcome in (Outcome.COMPATIBLE, Outcome.REBASE):
        return rule.outcome is Outcome.REBASE
    ours, other = type(transaction.operation).__name__, type(theirs.operation).__name__
    reason = f", because {rule.when.__doc__}" if rule.when else ""
    retryable = rule.outcome is not Outcome.INCOMPATIBLE
    advice = "run the operation again" if retryable else "the operation no longer applies to the table"
    what = f"this {ours}, prepared for version {transaction.read_version}, conflicts with the {other} of version {version}"
    raise CommitConflictError(f"{store.uri}: {what}{reason}; {advice}", retryable=retryable)


def _unseen(store: Store, transaction: Transaction, gone: list[int]) -> CommitConflictError:
    ours = f"this {type(transaction.operation).__name__}, prepared for version {transaction.read_version},"
    what = f"versions {gone[0]} to {gone[-1]} were cleaned up, so it is unknown whether {ours} conflicts with them"
    return CommitConflictError(f"{store.uri}: {what}; run the operation again", retryable=True)
