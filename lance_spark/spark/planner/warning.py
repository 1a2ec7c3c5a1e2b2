"""What a user is told, once, when Spark's planner cannot be taught about lance tables."""

from __future__ import annotations

import logging

_LOG = logging.getLogger("lance_spark")
_warned: set[str] = set()


def warn(reason: str) -> None:
    """Log a warning, in each process only the first time."""
    if not _warned:
        _LOG.warning("lance tables are read whole; to read less use the options columns, filter and limit: %s", reason)
    _warned.add(reason)
