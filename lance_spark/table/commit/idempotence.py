"""Writes that take place once, however often a job is run: the writer's name and a number that grows are kept with the transaction.

A write is left out when a version that is still there was made by the same application with the same or a higher number. Cleaning up
old versions ends that guarantee for the numbers that it forgets.
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
"""Numbers of more digits are none of ours, and Python reads none of more than some thousands."""


def covers(theirs: Transaction, ours: Transaction) -> bool:
    """Whether `theirs`, which was committed, makes `ours` superfluous."""
    done = _number(theirs, ours.properties.get(APP_ID))
    wanted = _number(ours, ours.properties.get(APP_ID))
    return done is not None and wanted is not None and done >= wanted


def done_before(store: Store, transaction: Transaction) -> Snapshot | None:
    """The latest version, if what `transaction` does was done up to the version that it was made for; None if not, or if it has no number.

    Newest first, so that the search ends with the last write of the same application. A Restore undoes what came after the version that it
    went back to.
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
    """The number that the application gave the transaction; None if it is not of this application, or has none."""
    text = transaction.properties.get(APP_VERSION, "")
    if app is None or transaction.properties.get(APP_ID) != app or not text.isascii() or not text.isdigit():
        return None
    if len(text) > _DIGITS:
        return None
    return int(text)
