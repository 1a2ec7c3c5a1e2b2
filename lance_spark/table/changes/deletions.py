"""The deletion files of a change: one for each fragment that loses rows and keeps some."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from lance_spark.errors import LanceError, logged
from lance_spark.metadata.deletion_file import read_deletions, write_deletions
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.locations import DELETIONS
from lance_spark.storage.store import Store
from lance_spark.table.versions.snapshot import Snapshot

_WRITERS = 16


def without_rows(
    snapshot: Snapshot, ids: Iterable[int], gone: Callable[[int], np.ndarray], updated: list[Fragment], keep_empty: bool = False
) -> tuple[int, ...]:
    """Write deletion files for the fragments with these ids. `gone` returns the offsets of the rows that one loses, ascending (uint32).

    The fragments that keep rows are added to `updated` as they are written; the ids of those that keep none are returned. With
    `keep_empty`, these get deletion files, too. Raises LanceError for a row that does not exist.
    """
    fragments = snapshot.manifest.lazy_fragments.of_ids(ids)

    def rest(fragment: Fragment) -> Fragment | None:
        offsets = gone(fragment.id)
        if fragment.deletion is not None:
            offsets = np.union1d(offsets, read_deletions(fragment, snapshot.locations))
        if len(offsets) and offsets[-1] >= fragment.physical_rows:
            raise LanceError(
                f"{snapshot}: row {offsets[-1]} of fragment {fragment.id} is changed, but it has only {fragment.physical_rows}"
            )
        if len(offsets) == fragment.physical_rows and not keep_empty:
            return None
        return replace(fragment, deletion=write_deletions(snapshot.store, fragment.id, snapshot.version, offsets, sync_name=False))

    removed, written = [], len(updated)
    # There is one small file per fragment, so latency dominates.
    with ThreadPoolExecutor(min(_WRITERS, len(fragments)) or 1) as pool:
        for fragment, done in zip(fragments.values(), pool.map(rest, fragments.values())):
            if done is None:
                removed.append(fragment.id)
            else:
                updated.append(done)
    if len(updated) > written:
        snapshot.store.sync(DELETIONS)
    return tuple(removed)


def discard(store: Store, fragments: Iterable[Fragment]) -> None:
    """Delete the deletion files of uncommitted fragments. Failures are logged; a cleanup removes the remaining files."""
    for fragment in fragments:
        if fragment.deletion is not None:
            path = fragment.deletion.path(fragment.id)
            with logged(f"{store.uri}: deleting {path}, which no version refers to"):
                store.delete(path)
