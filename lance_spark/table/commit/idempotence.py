"""Idempotent writes: the application's name and an increasing number are stored in the transaction, so that reruns are skipped.

A write is skipped if the same application has made an existing version with the same or a higher number. Once a cleanup has removed
all versions of an application, its writes are no longer recognised.
"""

from __future__ import annotations

from lance_spark.metadata.operations import Restore
from lance_spark.metadata.transaction import Transaction
from lance_spark.storage.store import Store
from lance_spark.table.versions.history import newest_first, transaction_of
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot

APP_ID = "txnAppId"
APP_VERSION = "txnVersion"
_DIGITS = 100
"""Longer numbers are ignored: ours are shorter, and Python limits the digits that it parses."""


def covers(theirs: Transaction, ours: Transaction) -> bool:
    """True if the committed transaction `theirs` makes `ours` redundant."""
    done = _number(theirs, ours.properties.get(APP_ID))
    wanted = _number(ours, ours.properties.get(APP_ID))
    return done is not None and wanted is not None and done >= wanted


def done_before(store: Store, transaction: Transaction) -> Snapshot | None:
    """The latest version if `transaction` is redundant at its read version; None if it is not or has no number.

    Versions are searched newest first, up to the last write of the same application. A Restore undoes the versions after the restored one.
    """
    app = transaction.properties.get(APP_ID)
    if app is None or not transaction.read_version:
        return None
    stands: int | None = None
    for snapshot in newest_first(store):
        if stands is not None and snapshot.version > stands:
            continue
        theirs = transaction_of(snapshot)
        if isinstance(theirs.operation, Restore):
            stands = theirs.operation.version
        elif _number(theirs, app) is not None:
            return open_snapshot(store) if covers(theirs, transaction) else None
    return None


def _number(transaction: Transaction, app: str | None) -> int | None:
    """The transaction's number; None if it has none or belongs to another application."""
    text = transaction.properties.get(APP_VERSION, "")
    if app is None or transaction.properties.get(APP_ID) != app or not text.isascii() or not text.isdigit():
        return None
    if len(text) > _DIGITS:
        return None
    return int(text)
