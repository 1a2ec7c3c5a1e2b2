"""Versions in wrong places, which are withdrawn: in a gap of the history, or in the history of another table.

Both happen to a writer that is suspended between finding the latest version and writing the next one. A gap is below later versions, where
a cleanup had removed the version of that number; the new rows would not be visible, because a later version is the latest. The transaction
of a version that was withdrawn is committed again after the latest version, if that is of the same table (see `same_table`).
"""

from __future__ import annotations

import time

from lance_spark.errors import CommitStateUnknownError, MissingFileError, StorageError, logged
from lance_spark.table.commit.same_table import is_misplaced
from lance_spark.table.maintenance.cleanup import PAUSE_S
from lance_spark.table.manifest_store.external import external, withdraw_manifest
from lance_spark.table.versions.hint import read_hint
from lance_spark.table.versions.identity import Standing
from lance_spark.table.versions.snapshot import Snapshot, list_versions, manifest_path, standing


def is_still_latest(snapshot: Snapshot, latest_at: float) -> bool:
    """True if `snapshot`, which was the latest version at the monotonic time `latest_at`, certainly still is; does not list the versions.

    No gap has appeared since then (see `withdrawn`), so a later version would have the next number. The table may have been dropped, and
    made anew.
    Object stores list their first names in one request, so there this is always False.
    """
    store = snapshot.store
    if store.is_remote or time.monotonic() - latest_at >= PAUSE_S or external(store) is not None:
        return False
    return not any(store.exists(manifest_path(snapshot.version + 1, v2)) for v2 in (True, False)) and standing(snapshot) is Standing.SAME


def withdrawn(snapshot: Snapshot, below: Snapshot | None, elapsed: float) -> bool:
    """Remove `snapshot`, which was just written as the version after `below`, if it is in a wrong place. Returns whether it was.

    `elapsed` is the time in seconds since the latest version was determined. Our cleanups pause so that no gap appears within PAUSE_S, so
    faster commits check only the hint. A failure of the check is logged, since the version has been written.
    Raises CommitStateUnknownError if the version cannot be removed.
    """
    store = snapshot.store
    what = ""
    with logged(f"{snapshot}: comparing the version below"):
        if below is not None and is_misplaced(snapshot, below):
            what = "was written to another table, since the one that was read was dropped and made anew,"
    with logged(f"{snapshot}: checking for later versions"):
        if external(store) is None and (elapsed >= PAUSE_S or (read_hint(store) or 0) > snapshot.version) and _is_in_gap(snapshot):
            what = what or "was written below later versions, so its rows are not visible,"
    if what:
        try:
            withdraw_manifest(store, snapshot.version, snapshot.path)
        except StorageError as e:
            raise CommitStateUnknownError(f"{snapshot}, {what} and could not be removed: {e}") from e
    return bool(what)


def _is_in_gap(snapshot: Snapshot) -> bool:
    """True if the following version is older than this one."""
    versions = list_versions(snapshot.store)
    later = [version for version in versions if version > snapshot.version]
    if not later:
        return False
    try:
        following, own = (snapshot.store.about(path).modified for path in (versions[min(later)], snapshot.path))
    except MissingFileError:
        return False  # a cleanup removed one of them as an old version of the same history
    return following is not None and own is not None and following < own
