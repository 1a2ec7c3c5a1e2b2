"""`cleanup`: remove old versions and the files that no version needs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from lance_spark.actions.action import Action, Command, Given, Outcome, Parameter, Said
from lance_spark.display.words import counted, size
from lance_spark.errors import RefConflictError, one_line
from lance_spark.table.maintenance.cleanup import (
    DEFAULT_AGE,
    CleanupPolicy,
    CleanupStats,
    cleanup_old_versions,
)
from lance_spark.table.maintenance.progress import Track, untracked
from lance_spark.table.versions.history import versions
from lance_spark.table.versions.snapshot import Snapshot


def clean_up(
    snapshot: Snapshot,
    older_than: timedelta | None = None,
    retain_versions: int | None = None,
    dry_run: bool = False,
    before_version: int | None = None,
    before_timestamp: datetime | None = None,
    delete_unverified: bool = False,
    error_if_tagged_old_versions: bool | None = None,
    delete_rate_limit: int | None = None,
    track: Track = untracked,
) -> CleanupStats:
    """Remove old versions; see `Dataset.cleanup_old_versions` for the arguments.

    An old version with a tag is an error if nothing is said of it, for the last release.
    """
    is_before = before_version is not None or before_timestamp is not None
    if older_than is None and retain_versions is None and not is_before:
        older_than = DEFAULT_AGE
    is_strict = error_if_tagged_old_versions is not False
    policy = CleanupPolicy(older_than, retain_versions, delete_unverified, is_strict, delete_rate_limit, dry_run)
    oldest = _oldest_kept(snapshot, before_version, before_timestamp) if is_before else None
    try:
        return cleanup_old_versions(snapshot, policy, track, oldest_kept=oldest)
    except RefConflictError as e:
        if error_if_tagged_old_versions is None:
            raise RefConflictError(f"{e}, which the next release does by itself") from None
        raise


def _oldest_kept(snapshot: Snapshot, version: int | None, timestamp: datetime | None) -> int:
    """The oldest version that is not before this version or time."""
    kept = [snapshot.version]
    if version is not None:
        kept.append(version)
    if timestamp is not None:
        later = (v.version for v in versions(snapshot.store) if v.timestamp >= timestamp)
        kept += [next(later, snapshot.version)]
    return min(kept)


def _counted(stats: CleanupStats) -> str:
    removed = (counted(stats.old_versions, "version"), counted(len(stats.files), "file"))
    return ", ".join((*removed, size(stats.bytes_removed)))


def _question(snapshot: Snapshot, given: Given) -> str | None:
    if given.get("dry_run"):
        return None
    would: CleanupStats = clean_up(snapshot, **{**given, "dry_run": True})
    return f"Remove {_counted(would)} of {snapshot.store.uri}?" if would.files else None


def _told(outcome: Outcome) -> str:
    stats: CleanupStats = outcome.value
    if not outcome.given.get("dry_run"):
        return f"removed {_counted(stats)}"
    return "\n".join([f"would remove {_counted(stats)}", *map(one_line, stats.files)])


def _plain(outcome: Outcome) -> dict[str, Any]:
    return {"dry_run": bool(outcome.given.get("dry_run")), "removed": outcome.value}


_UNTIL = "the default of CALL until the next release: an old version with a tag is an error"
CLEANUP = Action(
    "cleanup",
    "remove old versions and the files that no version needs",
    {
        "bytes_removed": "bigint",
        "old_versions": "bigint",
        "data_files_removed": "bigint",
        "transaction_files_removed": "bigint",
        "index_files_removed": "bigint",
        "deletion_files_removed": "bigint",
        "files": "array<string>",
    },
    clean_up,
    (
        Parameter(
            "older_than",
            "interval day to second",
            "remove versions older than this (default: 14 days, or no limit with another condition)",
        ),
        Parameter("retain_versions", "bigint", "the number of latest versions to keep at any age", least=1),
        Parameter("dry_run", "boolean", "tell what would be removed, without removing it", False),
        Parameter("before_version", "bigint", "remove only versions before this one"),
        Parameter("before_timestamp", "timestamp", "remove only versions before this time"),
        Parameter(
            "delete_unverified",
            "boolean",
            "remove files that no version refers to at any age, which is safe only without writers; else they are kept for seven days",
            False,
        ),
        Parameter(
            "error_if_tagged_old_versions",
            "boolean",
            "an old version with a tag is an error; else it is kept",
            False,
            says={
                "CALL": Said(_UNTIL, default=None),
                "LanceTable": Said(_UNTIL, default=None),
                "Dataset": Said("the default of pylance", default=True),
            },
        ),
        Parameter("delete_rate_limit", "bigint", "the most files that are removed in a second", least=1),
    ),
    effect="keeps",
    methods={"Dataset": ("cleanup_old_versions",), "LanceTable": ("vacuum",)},
    command=Command(
        about="The latest version stays, and so do those that a tag, a branch or a clone needs.",
        question=_question,
        told=_told,
        plain=_plain,
    ),
    tracks=True,
)
ACTIONS = (CLEANUP,)
