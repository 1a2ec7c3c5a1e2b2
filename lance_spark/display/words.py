"""Numbers, times and untrusted text in readable form."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from datetime import datetime

from lance_spark.errors import one_line

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_SHOWN = 200
"""Maximum number of characters shown of a value."""


def number(value: int | None) -> str:
    """An integer with commas; "unknown" for None."""
    return "unknown" if value is None else f"{value:,}"


def counted(value: int | None, singular: str) -> str:
    """A number of things: "1 file", "2 files"."""
    return f"{number(value)} {singular if value == 1 else singular + 's'}"


def size(value: float | None) -> str:
    """A number of bytes in binary units: "17 bytes", "1.5 MiB"; "unknown" for None."""
    if value is None:
        return "unknown"
    unit = 0
    while value >= 1023.95 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:,.1f} {_UNITS[unit]}" if unit else f"{value:,.0f} {'byte' if round(value) == 1 else 'bytes'}"


def percent(part: float, whole: float) -> str:
    """A percentage: "12.3%", or "<0.1%" if it is small; "" if the whole is 0."""
    if not whole:
        return ""
    share = 100 * part / whole
    return "<0.1%" if 0 < share < 0.05 else f"{share:.1f}%"


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: "; did you mean 'x'?", or "" if no known name is similar."""
    names = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), names, n=1)
    return f"; did you mean {names[near[0]]!r}?" if near else ""


def moment(time: datetime) -> str:
    """A time in UTC to the second."""
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def printable(text: str) -> str:
    """Like `one_line`, but at most 200 characters."""
    return one_line(text[:_SHOWN] + "…" if len(text) > _SHOWN else text)
