"""The deletion files of a change: one for each fragment that loses rows and keeps some."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from lance_spark.errors import LanceError, logged
from lance_spark.metadata.deletion_file import read_deletions, write_deletions
from lance_spark.metadata.fragment import Fragment
from lance_spark.metadata.locations import DELETIONS
from lance_spark.storage.store import Store
from lance_spark.table.commit.same_table import remove_dropped
from lance_spark.table.versions.snapshot import Snapshot

_WRITERS = 16
_WAITING = 2 * _WRITERS
"""Maximum number of fragments whose deleted rows wait in memory to be written."""


def without_rows(
    snapshot: Snapshot, gone: Iterable[tuple[int, np.ndarray]], updated: list[Fragment], keep_empty: bool = False
) -> tuple[int, ...]:
    """Write deletion files for fragments: `gone` has their ids, each once, and the offsets of the rows that they lose, ascending (uint32).

    Files are written while the next item of `gone` is made. The fragments that keep rows are added to `updated`, also if this raises; the
    ids of those that keep none are returned. With `keep_empty`, these get deletion files, too. Raises LanceError for a row that does not
    exist.
    """
    fragments = snapshot.manifest.lazy_fragments
    ids = fragments.ids
    order = np.argsort(ids, kind="stable")

    def write(fragment: Fragment, offsets: np.ndarray) -> list[int]:
        if fragment.deletion is not None:
            offsets = np.union1d(offsets, read_deletions(fragment, snapshot.locations))
        if len(offsets) and offsets[-1] >= fragment.physical_rows:
            raise LanceError(
                f"{snapshot}: row {offsets[-1]} of fragment {fragment.id} is changed, but it has only {fragment.physical_rows}"
            )
        if len(offsets) == fragment.physical_rows and not keep_empty:
            return [fragment.id]
        file = write_deletions(snapshot.store, fragment.id, snapshot.version, offsets, sync_name=False)
        updated.append(replace(fragment, deletion=file))
        return []

    removed: list[int] = []
    waiting: deque[Future[list[int]]] = deque()
    # There is one small file per fragment, so latency dominates. All files are written, or have failed, when the pool ends.
    with ThreadPoolExecutor(_WRITERS) as pool:
        for fragment_id, offsets in gone:
            if len(waiting) == _WAITING:
                removed += waiting.popleft().result()
            place = order[np.searchsorted(ids, fragment_id, side="right", sorter=order) - 1]
            waiting.append(pool.submit(write, fragments[int(place)], offsets))
        for written in waiting:
            removed += written.result()
    if updated:
        snapshot.store.sync(DELETIONS)
    updated.sort(key=lambda fragment: fragment.id)
    return tuple(removed)


def discard(store: Store, fragments: Iterable[Fragment]) -> None:
    """Delete the deletion files of uncommitted fragments. Failures are logged; a cleanup removes the remaining files."""
    for fragment in fragments:
        if fragment.deletion is not None:
            path = fragment.deletion.path(fragment.id)
            with logged(f"{store.uri}: deleting {path}, which no version refers to"):
                store.delete(path)
    remove_dropped(store)
