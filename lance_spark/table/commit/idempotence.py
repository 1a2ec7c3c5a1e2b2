"""Idempotent writes: the application's name and an increasing number are stored in the transaction, so that reruns are skipped.

A write is skipped if the same application has made an existing version with the same or a higher number. Once a cleanup has removed
all versions of an application, its writes are no longer recognised.
"""

from __future__ import annotations

from collections.abc import Mapping

from lance_spark.metadata.transaction import Transaction
from lance_spark.storage.store import Store
from lance_spark.table.versions.history import transaction_heads
from lance_spark.table.versions.snapshot import Snapshot, open_snapshot

APP_ID = "txnAppId"
APP_VERSION = "txnVersion"
_DIGITS = 100
"""Longer numbers are ignored: ours are shorter, and Python limits the digits that it parses."""


def covers(theirs: Transaction, ours: Transaction) -> bool:
    """True if the committed transaction `theirs` makes `ours` redundant."""
    app = ours.properties.get(APP_ID)
    done, wanted = _number(theirs.properties, app), _number(ours.properties, app)
    return done is not None and wanted is not None and done >= wanted


def done_before(store: Store, transaction: Transaction) -> Snapshot | None:
    """The latest version if `transaction` is redundant at its read version; None if it is not or has no number.

    Versions are searched newest first, up to the last write of the same application. A Restore undoes the versions after the restored one.
    """
    app = transaction.properties.get(APP_ID)
    if app is None or not transaction.read_version:
        return None
    stands: int | None = None
    wanted = _number(transaction.properties, app)
    for version, properties, restored in transaction_heads(store):
        if stands is not None and version > stands:
            continue
        if restored is not None:
            stands = restored
        elif (done := _number(properties, app)) is not None:
            return open_snapshot(store) if wanted is not None and done >= wanted else None
    return None


def _number(properties: Mapping[str, str], app: str | None) -> int | None:
    """The number of a transaction with these properties; None if it has none or belongs to another application."""
    text = properties.get(APP_VERSION, "")
    if app is None or properties.get(APP_ID) != app or not text.isascii() or not text.isdigit():
        return None
    if len(text) > _DIGITS:
        return None
    return int(text)
