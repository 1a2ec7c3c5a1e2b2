"""The time by the clock of a store, for whatever is compared with the times of its files: our own clock may be wrong."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from datetime import UTC, datetime, timedelta

from lance_spark.errors import StorageError
from lance_spark.storage.store import Store

_NOISE = timedelta(minutes=1)
"""Clocks that differ by less are taken for equal: stores round the time, and asking takes a while."""

_ASK_AGAIN_S = 3600.0
_ASKED: dict[tuple[int, str, str], tuple[float, bool]] = {}
"""When each process asked each bucket, and whether the clocks differed."""


def store_time(store: Store, folder: str) -> datetime:
    """The time now: by our own clock, unless that of the store differs, which a small file tells that is put into `folder` and deleted.

    It is our own as well where the store does not say when a file was written, or refuses to write.
    """
    path, now = f"{folder}/.clock-{uuid.uuid4().hex}", datetime.now(UTC)
    with contextlib.suppress(StorageError):
        store.put(path, b"")
        try:
            theirs = store.about(path).modified
        finally:
            store.delete(path)
        if theirs is not None and abs(theirs - now) > _NOISE:
            return theirs
    return now


def clock_differs(store: Store, path: str) -> bool:
    """Whether the store's clock, told by the file at `path`, which was just put, and ours differ; also if the store does not say.

    Asked once an hour for each bucket and process.
    """
    place, now = (os.getpid(), store.location.kind, store.location.bucket), time.monotonic()
    asked, differs = _ASKED.get(place, (-_ASK_AGAIN_S, True))
    if now - asked >= _ASK_AGAIN_S:
        modified = store.about(path).modified
        differs = modified is None or abs(modified - datetime.now(UTC)) > _NOISE
        _ASKED[place] = now, differs
    return differs
