"""Durations as text, as in a table's config: "14days", "1h 30m", "3600s"."""

from __future__ import annotations

import re
from datetime import timedelta

_UNITS = {
    **dict.fromkeys(("nsec", "ns"), 1e-9),
    **dict.fromkeys(("usec", "us", "µs"), 1e-6),
    **dict.fromkeys(("millis", "msec", "ms"), 1e-3),
    **dict.fromkeys(("seconds", "second", "secs", "sec", "s"), 1),
    **dict.fromkeys(("minutes", "minute", "mins", "min", "m"), 60),
    **dict.fromkeys(("hours", "hour", "hrs", "hr", "h"), 3600),
    **dict.fromkeys(("days", "day", "d"), 86400),
    **dict.fromkeys(("weeks", "week", "wks", "wk", "w"), 604800),
    **dict.fromkeys(("months", "month", "M"), 2630016),
    **dict.fromkeys(("years", "year", "yrs", "yr", "y"), 31557600),
}
_PART = re.compile(r"\s*(\d+)\s*([A-Za-zµ]+)")


def duration(text: str) -> timedelta:
    """Parse a duration: the sum of numbers with units. Raises ValueError for an invalid text."""
    total, end = 0.0, 0
    while match := _PART.match(text, end):
        if match[2] not in _UNITS:
            break
        total += int(match[1]) * _UNITS[match[2]]
        end = match.end()
    if not end or text[end:].strip():
        raise ValueError(f"{text!r} is not a duration such as '14days' or '1h 30m'")
    return timedelta(seconds=total)
