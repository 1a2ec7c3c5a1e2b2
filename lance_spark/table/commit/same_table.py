"""The check that a commit continues the history of the table that was read: it may have been dropped and made anew at the same path.

A put that is conditional on the version's number alone cannot notice that. Therefore the identity of the version that was read is compared
before the put, and that of the version right below the new one after it.
"""

from __future__ import annotations

from lance_spark.errors import CommitConflictError, logged
from lance_spark.metadata.locations import DATA
from lance_spark.metadata.manifest import Manifest
from lance_spark.storage.store import Store
from lance_spark.table.versions.history import TRANSACTIONS
from lance_spark.table.versions.identity import Standing
from lance_spark.table.versions.snapshot import VERSIONS, Snapshot, find_version, list_versions, standing, timestamp_of, to_datetime

_SAMPLE = 4
"""The number of files, old and new ones, that are looked for if the version below was removed: dropping a table removes all of them."""


def check_continues(current: Snapshot, version: int, identity: str, base: Snapshot | None = None) -> None:
    """Raise CommitConflictError if `current`, the latest version, is of another table than `version`, which had this identity.

    Without an identity nothing is compared. `base` may be the snapshot of `version`; if it is `current`, it was just compared. A version
    that was removed since cannot be compared.
    """
    if current is base or not version or not identity:
        return
    if current.version < version:
        other = True
    elif current.version == version:
        other = current.identity != identity
    elif base is not None:
        other = standing(base) is Standing.OTHER
    else:
        read = find_version(current.store, version)
        other = read is not None and read.identity != identity
    if other:
        raise made_anew(current.store, version)


def made_anew(store: Store, version: int) -> CommitConflictError:
    """The error that a table was dropped and made anew after `version` was read."""
    what = f"version {version} was read, but the table was dropped and made anew meanwhile; open it again"
    return CommitConflictError(f"{store.uri}: {what}", retryable=False)


def is_misplaced(snapshot: Snapshot, below: Snapshot) -> bool:
    """True if `snapshot`, which was just written as the version after `below`, is not in the history of that version.

    If `below` was removed, a cleanup may have done it, or the table was dropped. A drop also removes the files that `snapshot` names, and
    all versions that are there now are then newer than `below`.
    """
    found = standing(below)
    if found is not Standing.GONE:
        return found is Standing.OTHER
    if standing(snapshot) is not Standing.SAME:
        return False  # dropped, or removed as an old version, after the commit
    files, kept = _files(snapshot.manifest), _files(below.manifest)
    named = [f"{DATA}/{path}" for path in (*_sample(files & kept), *_sample(files - kept))]
    if not all(map(snapshot.store.exists, [f"{TRANSACTIONS}/{snapshot.manifest.transaction_file}", *named])):
        return True
    oldest, path = next(iter(list_versions(snapshot.store).items()))
    return oldest < below.version and timestamp_of(snapshot.store, oldest, path) > to_datetime(below.manifest.timestamp)


def _files(manifest: Manifest) -> set[str]:
    """The data files of a version in the table's own folder."""
    return {file.path for fragment in manifest.fragments for file in fragment.files if file.base_id is None}


def _sample(paths: set[str]) -> list[str]:
    return sorted(paths)[:: -(-len(paths) // _SAMPLE) or 1]


def remove_dropped(store: Store) -> None:
    """Remove the empty folders that a writer has left in the place of a dropped table, so that they are not listed as a table.

    Best effort: never raises.
    """
    with logged(f"{store.uri}: removing the empty folders of a dropped table"):
        if not store.names(VERSIONS):
            store.remove_empty_folders()
