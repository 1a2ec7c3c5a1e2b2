"""The net changes of several commits: one change for each row, from what it was before them to what it is after them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.table.feed.differences import NEEDS_ROW_IDS, Differences, Part, addresses_of_ids, marks_of, parts_at
from lance_spark.table.versions.snapshot import Snapshot


@dataclass(frozen=True)
class _Events:
    """Changes of rows: the row's id, the version of the commit, and whether the row was and is there."""

    ids: np.ndarray
    versions: np.ndarray
    was: np.ndarray
    is_now: np.ndarray

    def at(self, places: np.ndarray) -> _Events:
        """Some of the events."""
        return _Events(*(values[places] for values in vars(self).values()))


Differing = Callable[[Snapshot, np.ndarray, Snapshot, np.ndarray], np.ndarray]
"""Which rows, at their addresses in two versions, have other values."""


def net_differences(
    commits: Iterable[Differences], begin: Snapshot | None, end: Snapshot, opened: Callable[[int], Snapshot], differing: Differing
) -> Iterator[Differences]:
    """The net changes of consecutive commits from the version `begin` (None: an empty table) to the version `end`.

    Each belongs to the last commit that changed its row, which `opened` opens. Rows are what they are in `begin` and in `end`, not what
    they are around the commits that changed them: other commits may have changed columns or moved rows in between.

    Raises UnsupportedFeatureError for tables without stable row ids.
    """
    events = _joined([_events(found) for found in commits])
    order = np.lexsort((events.versions, events.ids))
    ids = events.ids[order]
    is_first = np.append(True, ids[1:] != ids[:-1])[: len(ids)]
    is_last = np.append(is_first[1:], True)[: len(ids)]
    first, last = events.at(order[is_first]), events.at(order[is_last])
    for rows in _groups(np.flatnonzero(first.was & last.is_now), last.versions):
        assert begin is not None  # the first commit has only inserts
        yield _updated(begin, end, first.ids[rows], opened(int(last.versions[rows[0]])), differing)
    for rows in _groups(np.flatnonzero(first.was & ~last.is_now), last.versions):
        assert begin is not None
        gone = list(parts_at(begin, addresses_of_ids(begin, first.ids[rows])))
        yield Differences(begin, end, deleted=gone, commit=opened(int(last.versions[rows[0]])))
    for rows in _groups(np.flatnonzero(~first.was & last.is_now), last.versions):
        came = list(parts_at(end, addresses_of_ids(end, last.ids[rows])))
        yield Differences(begin, end, inserted=came, commit=opened(int(last.versions[rows[0]])))


def _updated(begin: Snapshot, end: Snapshot, ids: np.ndarray, commit: Snapshot, differing: Differing) -> Differences:
    """Rows that are in both versions, without those whose values came back, as by a Restore."""
    old, new = addresses_of_ids(begin, ids), addresses_of_ids(end, ids)
    changed = marks_of(begin, old) != marks_of(end, new)
    if not changed.all():
        same = np.flatnonzero(~changed)
        changed[same] = differing(begin, old[same], end, new[same])
    return Differences(begin, end, updated=(old[changed], new[changed]), commit=commit)


def _row_ids(parts: Iterable[Part]) -> np.ndarray:
    return np.concatenate([np.empty(0, np.uint64), *(part.row_ids() for part in parts)])


def _events(found: Differences) -> _Events:
    for snapshot in (found.before, found.after):
        if snapshot is not None and not snapshot.manifest.has_stable_row_ids:
            raise UnsupportedFeatureError(f"{snapshot}: net changes need stable row ids; {NEEDS_ROW_IDS}")
    _, new = found.updated
    deleted, inserted = _row_ids(found.deleted), _row_ids(found.inserted)
    updated = _row_ids(parts_at(found.after, new))
    ids = np.concatenate([deleted, updated, inserted])
    was, is_now = np.ones(len(ids), bool), np.ones(len(ids), bool)
    was[len(deleted) + len(updated) :] = False
    is_now[: len(deleted)] = False
    return _Events(ids, np.full(len(ids), found.after.version), was, is_now)


def _joined(events: list[_Events]) -> _Events:
    nothing = _Events(*(np.empty(0, t) for t in (np.uint64, np.int64, bool, bool)))
    columns = zip(*(vars(some).values() for some in [nothing, *events]), strict=True)
    return _Events(*(np.concatenate(arrays) for arrays in columns))


def _groups(rows: np.ndarray, keys: np.ndarray) -> Iterator[np.ndarray]:
    """The rows in groups with equal keys, in the order of the keys."""
    order = rows[np.argsort(keys[rows], kind="stable")]
    cuts = np.flatnonzero(np.diff(keys[order])) + 1
    yield from (group for group in np.split(order, cuts) if len(group))
