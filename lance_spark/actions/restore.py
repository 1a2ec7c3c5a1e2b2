"""`restore`: make an earlier version the latest one again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lance_spark.actions.action import AT, NOTED, Action, Command, Given, Outcome, noted, version_at
from lance_spark.errors import InvalidOptionError
from lance_spark.table.changes import alter
from lance_spark.table.scan.parts import all_live_rows
from lance_spark.table.versions.snapshot import Snapshot


@dataclass(frozen=True)
class Restored:
    """The new version, and the one whose rows it has."""

    version: int
    restored: int


def restore(snapshot: Snapshot, version: str | None = None, timestamp: datetime | None = None, **given: Any) -> Restored:
    """Commit an earlier version again."""
    write, earlier = noted(given), _earlier(snapshot, version, timestamp)
    return Restored(alter.restore(earlier, write.noted).version, earlier.version)


def _earlier(snapshot: Snapshot, version: str | None, timestamp: datetime | None) -> Snapshot:
    if version is None and timestamp is None:
        raise InvalidOptionError("restore needs either version (a number or a tag) or timestamp")
    return version_at(snapshot, version, timestamp)


def _question(snapshot: Snapshot, given: Given) -> str:
    earlier = _earlier(snapshot, given.get("version"), given.get("timestamp"))
    rows = int(all_live_rows(earlier).sum())
    return f"Restore version {earlier.version}, which has {rows:,} rows?"


def _told(outcome: Outcome) -> str:
    done: Restored = outcome.value
    return f"version {done.version} has the rows of version {done.restored}"


def _plain(outcome: Outcome) -> dict[str, int]:
    return {"restored": outcome.value.restored, "version": outcome.value.version}


RESTORE = Action(
    "restore",
    "make an earlier version the latest one again",
    {"version": "bigint"},
    restore,
    (*AT, *NOTED),
    effect="columns",
    methods={"LanceTable": ("restoreToVersion", "restoreToTimestamp")},
    command=Command(
        about="This is a new version: the versions in between stay.",
        question=_question,
        told=_told,
        plain=_plain,
    ),
    see="It needs one of the two.",
)
ACTIONS = (RESTORE,)
