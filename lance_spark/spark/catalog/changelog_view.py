"""`create_changelog_view`: a temporary view of what versions have changed, with the columns of Iceberg's."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.table.feed.changes import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION
from lance_spark.table.versions.history import history
from lance_spark.table.versions.snapshot import Snapshot

_LOG = logging.getLogger("lance_spark")
_START, _END = "start-snapshot-id", "end-snapshot-id"
_START_TIME, _END_TIME = "start-timestamp", "end-timestamp"
_OPTIONS = (_START, _END, _START_TIME, _END_TIME)


@dataclass(frozen=True)
class ChangelogView:
    """The changes of the versions `first` to `last`. Without `with_updates`, an update is a deletion and an insertion."""

    name: str
    first: int
    last: int
    with_updates: bool

    def statement(self, table: Sequence[str]) -> str:
        """The statement of Spark that makes the view of a table, whose name has these parts."""
        name = ".".join(map(_quoted, table)) if len(table) > 1 else table[0]
        before, after = ("UPDATE_BEFORE", "UPDATE_AFTER") if self.with_updates else ("DELETE", "INSERT")
        kinds = {"insert": "INSERT", "delete": "DELETE", "update_preimage": before, "update_postimage": after}
        cases = " ".join(f"WHEN '{ours}' THEN '{theirs}'" for ours, theirs in kinds.items())
        literal = name.replace("\\", "\\\\").replace("'", "\\'")
        return (
            f"CREATE OR REPLACE TEMPORARY VIEW {_quoted(self.name)} AS "
            f"SELECT * EXCEPT ({CHANGE_TYPE}, {COMMIT_VERSION}, {COMMIT_TIMESTAMP}), CASE {CHANGE_TYPE} {cases} END AS {CHANGE_TYPE}, "
            f"CAST({COMMIT_VERSION} - {self.first} AS INT) AS _change_ordinal, {COMMIT_VERSION} AS _commit_snapshot_id "
            f"FROM table_changes('{literal}', {self.first}, {self.last})"
        )


def changelog_view(snapshot: Snapshot, table: Sequence[str], given: Mapping[str, Any]) -> ChangelogView:
    """The view that the arguments of `create_changelog_view` mean. `table` are the parts of the table's name.

    Raises InvalidOptionError for options that are wrong, and UnsupportedFeatureError for net changes.
    """
    if given.get("net_changes"):
        raise UnsupportedFeatureError("create_changelog_view: each change of a row is in the view; leave out net_changes")
    identifiers = given.get("identifier_columns", [])
    if identifiers:
        _LOG.warning("create_changelog_view: rows are known by their ids, so identifier_columns have no effect on which are updates")
    first, last = _versions(snapshot, given.get("options", {}))
    if first > last:
        raise InvalidOptionError(
            f"create_changelog_view: {snapshot}: no version is after the start and not after the end; t.snapshots lists them"
        )
    folder = table[-1].rstrip("/").rpartition("/")[2].removesuffix(".lance")
    name = given.get("changelog_view", f"{folder}_changes")
    return ChangelogView(name, first, last, given.get("compute_updates", bool(identifiers)))


def _versions(snapshot: Snapshot, options: Mapping[str, str]) -> tuple[int, int]:
    """The first and the last version whose changes are asked for."""
    for name, text in options.items():
        if name not in _OPTIONS:
            raise InvalidOptionError(f"create_changelog_view has no option {name!r}; its options are: {', '.join(_OPTIONS)}")
        if not text.isdecimal():
            raise InvalidOptionError(f"create_changelog_view: the option {name!r} is a number, not {text!r}")
    for version, time in ((_START, _START_TIME), (_END, _END_TIME)):
        if version in options and time in options:
            raise InvalidOptionError(f"create_changelog_view: give {version!r} or {time!r}, not both")
    first, last = 1, snapshot.version
    if _START_TIME in options or _END_TIME in options:
        times = {entry.version: round(entry.timestamp.timestamp() * 1000) for entry in history(snapshot.store)}
        start, end = int(options.get(_START_TIME, -1)), int(options.get(_END_TIME, max(times.values())))
        first = min((version for version, time in times.items() if time > start), default=snapshot.version + 1)
        last = max((version for version, time in times.items() if time <= end), default=0)
    if _START in options:
        first = int(options[_START]) + 1
    if _END in options:
        last = int(options[_END])
    return first, last


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
