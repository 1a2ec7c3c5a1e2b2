"""The rows with the smallest distances, found step by step."""

from __future__ import annotations

import numpy as np

from lance_spark.kernels.kernel import kernel

Bounds = tuple[float | None, float | None]
"""The least distance, and the first one that is too large. None: there is no bound."""


class Best:
    """At most `count` rows with the smallest distances within `within` (the lower bound inclusive, the upper one exclusive).

    Of rows at one distance, those with the smallest numbers (uint64) are kept. Rows whose distance is NaN are none.
    """

    def __init__(self, count: int, within: Bounds = (None, None)) -> None:
        self.count, self.within = count, within
        self._least, self._bound = within
        self._distances = [np.empty(0, np.float32)]
        self._rows = [np.empty(0, np.uint64)]
        self._kept = 0
        self.worst = np.float32(np.inf if self._bound is None else self._bound)
        """No row with a greater distance than this is among the best."""

    def add(self, distances: np.ndarray, rows: np.ndarray) -> None:
        """Add rows with their distances (float32)."""
        with np.errstate(invalid="ignore"):
            kept = distances <= self.worst
            if self._least is not None:
                kept &= distances >= np.float32(self._least)
            if self._bound is not None:
                kept &= distances < np.float32(self._bound)
        which = np.flatnonzero(kept)
        if len(which) > self.count:
            own = distances[which]
            which = which[own <= np.partition(own, self.count - 1)[self.count - 1]]  # with all rows at the last distance
        self._distances.append(distances[which])
        self._rows.append(rows[which])
        self._kept += len(which)
        if self._kept > 2 * self.count or (self._kept >= self.count and np.isinf(self.worst)):
            self._cut()

    def take(self, distances: np.ndarray, rows: np.ndarray) -> None:
        """Add rows within the bounds, which are in order and at most `count`."""
        if self._kept or len(rows) > self.count:
            self.add(distances, rows)
            return
        self._distances, self._rows, self._kept = [distances], [rows], len(rows)
        if len(rows) == self.count:
            self.worst = distances[-1]

    def _cut(self) -> None:
        if len(self._rows) == 1 and self._kept <= self.count:
            return
        distances, rows = np.concatenate(self._distances), np.concatenate(self._rows)
        if len(rows) > self.count:
            order = np.lexsort((rows, distances))[: self.count]
            distances, rows = distances[order], rows[order]
        self._distances, self._rows, self._kept = [distances], [rows], len(rows)
        if len(rows) == self.count:
            self.worst = distances.max()

    def __len__(self) -> int:
        """The number of rows found so far, at most `count`."""
        return min(self._kept, self.count)

    def found(self) -> tuple[np.ndarray, np.ndarray]:
        """The distances and the rows, in order of the distance, then of the row."""
        self._cut()
        order = np.lexsort((self._rows[0], self._distances[0]))
        return self._distances[0][order], self._rows[0][order]


class Heap:
    """At most `count` rows with the smallest distances within `within`, as `Best`, in the order in which they are met.

    Of rows at one distance, those are kept that pylance keeps: a row that is as far as the farthest one does not replace it, and which of
    several farthest ones is replaced follows from the order of a binary heap.
    """

    def __init__(self, count: int, within: Bounds = (None, None)) -> None:
        self._count = count
        self._least, self._bound = (float(np.float32(np.nan if bound is None else bound)) for bound in within)
        self._distances = np.empty(min(count, _ROOM), np.float32)
        self._rows = np.empty(min(count, _ROOM), np.uint64)
        self._kept = 0

    def __len__(self) -> int:
        return self._kept

    def add(self, distances: np.ndarray, rows: np.ndarray, allowed: np.ndarray | None = None) -> None:
        """Add rows (uint64) with their distances (float32); those that are `allowed` (None: all)."""
        room = min(self._count, self._kept + len(rows))
        if room > len(self._rows):
            grown = min(max(room, 2 * len(self._rows)), self._count)
            self._distances, self._rows = np.resize(self._distances, grown), np.resize(self._rows, grown)
        if allowed is not None:
            which = np.flatnonzero(allowed)
            distances, rows = distances[which], rows[which]
        self._kept = keep_nearest(distances, rows, self._least, self._bound, self._distances, self._rows, self._kept)

    def count_below(self, bound: float) -> int:
        """The number of rows with a smaller distance."""
        return int(np.count_nonzero(self._distances[: self._kept] < np.float32(bound)))

    def found(self) -> tuple[np.ndarray, np.ndarray]:
        """The distances and the rows, in no order."""
        return self._distances[: self._kept], self._rows[: self._kept]


_ROOM = 1 << 12
"""Rows that a heap has room for at first."""


@kernel
def keep_nearest(
    distances: np.ndarray, rows: np.ndarray, least: float, bound: float, heap: np.ndarray, kept: np.ndarray, count: int
) -> int:
    """Add rows to a heap of `count` rows `kept` with their distances `heap`, the greatest first; returns the new number.

    When it is full, a row replaces the first if it is nearer. Distances below `least`, from `bound` on, and NaN are left out; a bound that
    is NaN does not count.
    """
    for i in range(len(distances)):
        count = keep_if_near(distances[i], rows[i], least, bound, heap, kept, count)
    return count


@kernel
def keep_nearest_of_each(
    distances: np.ndarray,
    rows: np.ndarray,
    which: np.ndarray,
    least: float,
    bound: float,
    heaps: np.ndarray,
    kept: np.ndarray,
    counts: np.ndarray,
    queries: np.ndarray,
) -> None:
    """The same for several `queries`: their numbers, of rows in `heaps`, `kept` and `counts`; a column of `distances` for each of them.

    Only the rows at `which` are added.
    """
    room = heaps.shape[1]
    limits = np.full(len(queries), bound if bound == bound else np.inf, np.float32)  # greater distances are not among the nearest
    for j in range(len(queries)):
        if counts[queries[j]] == room:
            limits[j] = np.nextafter(heaps[queries[j], 0], np.float32(-np.inf))
    for i in which:
        own = distances[i]
        near = 0
        for j in range(len(limits)):
            near |= own[j] <= limits[j]
        if near:
            for j in range(len(limits)):
                if own[j] <= limits[j]:
                    q = queries[j]
                    counts[q] = keep_if_near(own[j], rows[i], least, bound, heaps[q], kept[q], counts[q])
                    if counts[q] == room:
                        limits[j] = np.nextafter(heaps[q, 0], np.float32(-np.inf))


@kernel
def keep_if_near(own: float, own_row: int, least: float, bound: float, heap: np.ndarray, kept: np.ndarray, count: int) -> int:
    """The same for one row."""
    room = len(heap)
    if count == room and not own < heap[0]:
        return count
    if own != own or own < least or own >= bound:
        return count
    if count == room:
        # The last row moves down from the top to a leaf, always to the farther child, then up to its place.
        count -= 1
        at, child = 0, 1
        last, last_row = heap[count], kept[count]
        while child < count - 1:
            if heap[child] <= heap[child + 1]:
                child += 1
            heap[at], kept[at] = heap[child], kept[child]
            at, child = child, 2 * child + 1
        if child == count - 1:
            heap[at], kept[at] = heap[child], kept[child]
            at = child
        while at > 0 and heap[(at - 1) // 2] < last:
            heap[at], kept[at] = heap[(at - 1) // 2], kept[(at - 1) // 2]
            at = (at - 1) // 2
        if count > 0:
            heap[at], kept[at] = last, last_row
    at = count
    while at > 0 and heap[(at - 1) // 2] < own:
        heap[at], kept[at] = heap[(at - 1) // 2], kept[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at], kept[at] = own, own_row
    return count + 1
