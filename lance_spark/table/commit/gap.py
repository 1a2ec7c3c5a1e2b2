"""Finding a version that was put into a gap: below later versions, where a cleanup had removed another version of that number.

A writer that is suspended between finding the latest version and its put can do so. Nobody would see its rows, since the latest
version is another. Such a version is withdrawn, and the transaction is committed again on top of the latest version.
"""

from __future__ import annotations

from lance_spark.errors import CommitStateUnknownError, MissingFileError, StorageError, logged
from lance_spark.table.maintenance.cleanup import PAUSE_S
from lance_spark.table.manifest_store.external import external
from lance_spark.table.versions.hint import read_hint
from lance_spark.table.versions.snapshot import Snapshot, list_versions


def withdrawn(snapshot: Snapshot, elapsed: float) -> bool:
    """Remove `snapshot`, which was just put, if it is in a gap; return whether it was.

    `elapsed` is the time in seconds since the latest version was looked for. Our cleanups pause so long that no gap appears within
    PAUSE_S, so that commits as fast as that ask only for the hint. A failure to find out is logged, since the version has been put.
    Raises CommitStateUnknownError if the version cannot be removed.
    """
    store = snapshot.store
    in_gap = False
    with logged(f"{snapshot}: checking that no later version is older"):
        in_gap = external(store) is None and (elapsed >= PAUSE_S or (read_hint(store) or 0) > snapshot.version) and _is_in_gap(snapshot)
    if in_gap:
        try:
            store.delete(snapshot.path)
        except StorageError as e:
            raise CommitStateUnknownError(
                f"{snapshot} was put below later versions and could not be removed; its rows are not seen: {e}"
            ) from e
    return in_gap


def _is_in_gap(snapshot: Snapshot) -> bool:
    """Whether the next version was there before this one."""
    versions = list_versions(snapshot.store)
    later = [version for version in versions if version > snapshot.version]
    if not later:
        return False
    try:
        following, own = (snapshot.store.about(path).modified for path in (versions[min(later)], snapshot.path))
    except MissingFileError:
        return False  # a cleanup removed one of them as an old version of the same history
    return following is not None and own is not None and following < own
