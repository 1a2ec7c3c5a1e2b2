"""The time on a store's own clock, for comparison with the modification times of its files. The local clock may be wrong."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from datetime import UTC, datetime, timedelta

from lance_spark.errors import StorageError
from lance_spark.storage.store import Store

_NOISE = timedelta(minutes=1)
"""Clocks that differ by less count as equal, since stores round times and a request takes time."""

_RECHECK_S = 3600.0
_CHECKED: dict[tuple[int, str, str], tuple[float, bool]] = {}
"""For each process and bucket: when the clocks were last compared (monotonic seconds), and whether they differed."""


def store_time(store: Store, folder: str) -> datetime:
    """Return the store's current time if its clock differs from the local one, otherwise the local time.

    To read the store's clock, a small file is written to `folder` and deleted. The local time is also returned if the store does not
    report modification times or refuses the write.
    """
    path, now = f"{folder}/.clock-{uuid.uuid4().hex}", datetime.now(UTC)
    with contextlib.suppress(StorageError):
        store.put(path, b"", durable=False)
        try:
            theirs = store.about(path).modified
        finally:
            store.delete(path)
        if theirs is not None and abs(theirs - now) > _NOISE:
            return theirs
    return now


def clock_differs(store: Store, path: str) -> bool:
    """True if the store's clock differs from the local one or is unknown. `path` is a file that was just written.

    The result is cached for one hour for each bucket and process.
    """
    place, now = (os.getpid(), store.location.kind, store.location.bucket), time.monotonic()
    checked, differs = _CHECKED.get(place, (-_RECHECK_S, True))
    if now - checked >= _RECHECK_S:
        modified = store.about(path).modified
        differs = modified is None or abs(modified - datetime.now(UTC)) > _NOISE
        _CHECKED[place] = now, differs
    return differs
