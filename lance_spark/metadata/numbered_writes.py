"""Numbered writes: the name of an application and an increasing number in a transaction, so that a rerun of the write is skipped.

Every manifest that we write has an extension with the last number of each application, so that the history need not be searched for it. It
covers the versions after `since`; for all other applications, the state of version `since` holds. Thus the extension follows from the
version before alone, even if that was written by a writer without the extension. A Restore goes back to the state of the restored version.

The extension names its version, since a writer may copy unknown fields of a manifest to the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lance_spark._proto import table_pb2 as pb

APP_ID = "txnAppId"
APP_VERSION = "txnVersion"
COPIES = "lance-spark-copy-into"
"""The application of COPY INTO, see `table.commit.copied_files`."""
VIEWS = "lance-spark-view"
"""The application of refreshes of a materialized view, see `metadata.view_records`."""
COPY_BITS = 40
"""The last bits of the numbers of both tell writes apart that follow the same one: only one of these is committed."""
_DIGITS = 100
"""Longer numbers are ignored: ours are shorter, and Python limits the digits that it parses."""

_MOST = 1000
"""Maximum number of applications in one manifest."""


@dataclass(frozen=True, slots=True)
class NumberedWrites:
    """The last number of each application in the versions after `since` (0: all versions), up to `version`."""

    version: int
    since: int
    numbers: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def fits(self) -> bool:
        """Whether there are so few applications that a manifest can have the record."""
        return len(self.numbers) <= _MOST

    def number(self, app: str) -> int | None:
        """The last number of the application; None if it is not known here."""
        return parsed(self.numbers.get(app, ""))


def number_of(properties: Mapping[str, str], app: str | None) -> int | None:
    """The number of a transaction with these properties; None if it has none or belongs to another application than `app`."""
    return None if app is None or properties.get(APP_ID) != app else parsed(properties.get(APP_VERSION, ""))


def includes(app: str, written: int, wanted: int) -> bool:
    """True if a write of the application with the number `written` makes one with the number `wanted` redundant."""
    return written >> COPY_BITS >= wanted >> COPY_BITS if app in (COPIES, VIEWS) else written >= wanted


def parsed(text: str) -> int | None:
    """The number in a transaction property; None if it is invalid."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None


def following(before: NumberedWrites | None, before_version: int, version: int, properties: Mapping[str, str]) -> NumberedWrites:
    """The extension of `version`, made by a transaction with these properties.

    `before` is the extension of the version `before_version` (0: there was no table), which the new one continues or restores; None if that
    has none.
    """
    since, numbers = (before.since, dict(before.numbers)) if before is not None else (before_version, {})
    app = properties.get(APP_ID)
    if app is not None and number_of(properties, app) is not None:
        if app not in numbers and len(numbers) >= _MOST:
            since, numbers = before_version, {}
        numbers[app] = properties[APP_VERSION]
    return NumberedWrites(version, since, numbers)


def read_numbered_writes(message: pb.Manifest) -> NumberedWrites | None:
    """The extension of a manifest; None if it has none, or one that is not for its version."""
    if not message.HasField("numbered_writes"):
        return None
    found = message.numbered_writes
    if found.version != message.version or found.since >= found.version:
        return None
    return NumberedWrites(found.version, found.since, dict(found.numbers))


def write_numbered_writes(numbered: NumberedWrites, message: pb.Manifest) -> None:
    """Add the extension to a manifest."""
    found = message.numbered_writes
    found.version, found.since = numbered.version, numbered.since
    found.numbers.update(numbered.numbers)
