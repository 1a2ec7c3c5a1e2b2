"""The place of a stream, recorded with the table for cleanups."""

from __future__ import annotations

import logging
import time
from datetime import timedelta

from lance_spark.errors import LanceError
from lance_spark.table.versions.consumers import put_place
from lance_spark.table.versions.snapshot import Snapshot

_LOG = logging.getLogger(__name__)


class Place:
    """Records the place of the consumer `id`. It is not written as long as nothing changes, but in time before it expires.

    A failure is logged, and never that of the query: the place that is recorded is then an earlier one, which keeps more.
    """

    def __init__(self, id: str, expiration: timedelta) -> None:
        self._id, self._expiration = id, expiration
        self._recorded: Snapshot | None = None
        self._since = 0.0

    def move(self, snapshot: Snapshot) -> None:
        """Record that the stream needs this version and later ones."""
        if self._recorded is not None and self._recorded.version == snapshot.version and not self._is_due():
            return
        try:
            put_place(snapshot, self._id, self._expiration)
        except (LanceError, OSError) as e:
            _LOG.warning("%s: the place of the consumer %s is not recorded, so that cleanups keep more: %s", snapshot, self._id, e)
            return
        self._recorded, self._since = snapshot, time.monotonic()

    def renew(self) -> None:
        """Record the same place again, if a tenth of the time is over after which it expires."""
        if self._recorded is not None and self._is_due():
            self.move(self._recorded)

    def _is_due(self) -> bool:
        return time.monotonic() - self._since > self._expiration.total_seconds() / 10
