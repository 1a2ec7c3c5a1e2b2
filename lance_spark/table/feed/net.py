"""The net changes of several commits: one change for each row, from what it was before them to what it is after them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.table.feed.differences import NEEDS_ROW_IDS, Differences, marks_of, parts_at
from lance_spark.table.versions.snapshot import Snapshot


@dataclass(frozen=True)
class _Events:
    """Changes of rows: the row's id, the version of the commit, and the row's address before and after it, if it was and is there."""

    ids: np.ndarray
    versions: np.ndarray
    was: np.ndarray
    old: np.ndarray
    is_now: np.ndarray
    new: np.ndarray

    def at(self, places: np.ndarray) -> _Events:
        """Some of the events."""
        return _Events(*(values[places] for values in vars(self).values()))


Differing = Callable[[Snapshot, np.ndarray, Snapshot, np.ndarray], np.ndarray]
"""Which rows, at their addresses in two versions, have other values."""


def net_differences(commits: Iterable[Differences], opened: Callable[[int], Snapshot], differing: Differing) -> Iterator[Differences]:
    """The net changes of consecutive commits, of which each belongs to the last commit that changed its rows.

    `opened` opens a version again. Raises UnsupportedFeatureError for tables without stable row ids.
    """
    events = _joined([_events(found) for found in commits])
    order = np.lexsort((events.versions, events.ids))
    ids = events.ids[order]
    is_first = np.append(True, ids[1:] != ids[:-1])[: len(ids)]
    is_last = np.append(is_first[1:], True)[: len(ids)]
    first, last = events.at(order[is_first]), events.at(order[is_last])
    both = np.flatnonzero(first.was & last.is_now)
    for rows in _groups(both, first.versions, last.versions):
        before, after = opened(int(first.versions[rows[0]]) - 1), opened(int(last.versions[rows[0]]))
        yield _updated(before, after, first.old[rows], last.new[rows], differing)
    for rows in _groups(np.flatnonzero(first.was & ~last.is_now), first.versions, last.versions):
        before, after = opened(int(first.versions[rows[0]]) - 1), opened(int(last.versions[rows[0]]))
        yield Differences(before, after, deleted=list(parts_at(before, first.old[rows])))
    for rows in _groups(np.flatnonzero(~first.was & last.is_now), last.versions, last.versions):
        after = opened(int(last.versions[rows[0]]))
        yield Differences(None, after, inserted=list(parts_at(after, last.new[rows])))


def _updated(before: Snapshot, after: Snapshot, old: np.ndarray, new: np.ndarray, differing: Differing) -> Differences:
    """Rows that are in both versions, without those whose values came back, as by a Restore."""
    changed = marks_of(before, old) != marks_of(after, new)
    if not changed.all():
        same = np.flatnonzero(~changed)
        changed[same] = differing(before, old[same], after, new[same])
    return Differences(before, after, updated=(old[changed], new[changed]))


def _events(found: Differences) -> _Events:
    for snapshot in (found.before, found.after):
        if snapshot is not None and not snapshot.manifest.has_stable_row_ids:
            raise UnsupportedFeatureError(f"{snapshot}: net changes need stable row ids; {NEEDS_ROW_IDS}")
    old, new = found.updated
    nothing = np.empty(0, np.uint64)
    gone, came = ([nothing, *(part.addresses for part in parts)] for parts in (found.deleted, found.inserted))
    parts = [*found.deleted, *(parts_at(found.after, new)), *found.inserted]
    # Updated rows in the order of `parts_at`.
    order = np.argsort(new, kind="stable")
    left, there = np.concatenate([*gone, old[order]]), np.concatenate([new[order], *came])
    deleted, inserted = sum(map(len, gone)), sum(map(len, came))
    ids = np.concatenate([nothing, *(part.row_ids() for part in parts)])
    none = np.zeros(len(ids), bool)
    was, is_now = none.copy(), none.copy()
    was[: len(left)], is_now[deleted:] = True, True
    return _Events(
        ids,
        np.full(len(ids), found.after.version),
        was,
        np.concatenate([left, np.zeros(inserted, np.uint64)]),
        is_now,
        np.concatenate([np.zeros(deleted, np.uint64), there]),
    )


def _joined(events: list[_Events]) -> _Events:
    nothing = _Events(*(np.empty(0, t) for t in (np.uint64, np.int64, bool, np.uint64, bool, np.uint64)))
    return _Events(*(np.concatenate(arrays) for arrays in zip(*(vars(e).values() for e in [nothing, *events]), strict=True)))


def _groups(rows: np.ndarray, *keys: np.ndarray) -> Iterator[np.ndarray]:
    """The rows in groups with equal keys, by the last key first."""
    order = rows[np.lexsort([key[rows] for key in keys])] if len(rows) else rows
    cuts = np.flatnonzero(np.any([np.diff(key[order]) for key in keys], axis=0)) + 1
    yield from (group for group in np.split(order, cuts) if len(group))
