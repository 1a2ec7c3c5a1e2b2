"""Idempotent writes: the application's name and an increasing number are stored in the transaction, so that reruns are skipped.

A write is skipped if the same application has made a version of the table with the same or a higher number, and no Restore has undone it.
It is found without reading the history in tables that we write (see `metadata.numbered_writes`), and in others that is read once. Once a
cleanup has removed versions of other writers, numbers in their transactions are no longer recognised.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lance_spark.metadata.numbered_writes import APP_ID, APP_VERSION, NumberedWrites, includes, number_of
from lance_spark.metadata.transaction import Transaction
from lance_spark.storage.store import Store
from lance_spark.table.versions.history import transaction_heads
from lance_spark.table.versions.snapshot import Snapshot, list_versions, open_snapshot


def covers(theirs: Transaction, ours: Transaction) -> bool:
    """True if the committed transaction `theirs` makes `ours` redundant."""
    app = ours.properties.get(APP_ID)
    done, wanted = number_of(theirs.properties, app), number_of(ours.properties, app)
    return app is not None and done is not None and wanted is not None and includes(app, done, wanted)


def done_before(store: Store, properties: Mapping[str, str]) -> Snapshot | None:
    """The latest version if a transaction with these properties is redundant in it; None if it is not or has no number."""
    if APP_ID not in properties:
        return None
    latest = open_snapshot(store)
    return latest if is_done(latest, properties) else None


def is_done(latest: Snapshot, properties: Mapping[str, str]) -> bool:
    """True if a transaction with these properties is redundant in `latest`, the latest version; False if it is not or has no number."""
    app = properties.get(APP_ID)
    wanted = number_of(properties, app)
    if app is None or wanted is None:
        return False
    done = _known(latest, app).number(app)
    return done is not None and includes(app, done, wanted)


def last_number(latest: Snapshot, app: str) -> int | None:
    """The number of the last write of an application that stands in `latest`, the latest version; None if there is none."""
    return _known(latest, app).number(app)


def with_numbers(latest: Snapshot, properties: Mapping[str, str]) -> Snapshot:
    """`latest` with what the history has to be searched for to answer `is_done` for the application that is named.

    The version that is made of it has that, too, so that the history is not searched again for the next application.
    """
    numbered = _known(latest, properties[APP_ID])
    return replace(latest, manifest=replace(latest.manifest, numbered=numbered)) if numbered.fits else latest


def _known(latest: Snapshot, app: str) -> NumberedWrites:
    """The record of `latest` if that tells the last number of an application that stands, or that there is none; otherwise a longer one.

    Versions without a record of numbers are searched for the last write of the application, newest first, and all others that are found
    are recorded along. A Restore undoes versions.
    """
    numbered = latest.manifest.numbered
    if numbered is not None and (numbered.number(app) is not None or not numbered.since):
        return numbered
    store, stands = latest.store, latest.version if numbered is None else numbered.since
    numbers = {} if numbered is None else dict(numbered.numbers)
    paths: dict[int, str] | None = None
    while stands:
        paths = {v: path for v, path in (list_versions(store) if paths is None else paths).items() if v <= stands}
        stands = 0
        for head in transaction_heads(store, paths):
            if head.numbered is not None:
                numbers = {**head.numbered.numbers, **numbers}
                stands = head.numbered.since
                if head.numbered.number(app) is not None:
                    return NumberedWrites(latest.version, stands, numbers)
                break
            if head.restored is not None:
                stands = min(head.restored, head.version - 1)
                break
            theirs = head.properties.get(APP_ID, "")
            if number_of(head.properties, theirs) is not None:
                numbers.setdefault(theirs, head.properties[APP_VERSION])
                if theirs == app:
                    return NumberedWrites(latest.version, head.version - 1, numbers)
    return NumberedWrites(latest.version, 0, numbers)
