"""The warning that the planner could not be installed."""

from __future__ import annotations

import logging

_LOG = logging.getLogger("lance_spark")
_warned: set[str] = set()


def warn(reason: str) -> None:
    """Log a warning once per process."""
    if not _warned:
        _LOG.warning(
            "queries read whole lance tables without push-down; to read less, use the options columns, filter and limit: %s", reason
        )
    _warned.add(reason)
