"""The rows with the smallest distances, found step by step."""

from __future__ import annotations

import numpy as np


class Best:
    """At most `count` rows with the smallest distances within `within` (the lower bound inclusive, the upper one exclusive).

    A row is a number (uint64). Rows whose distance is NaN are none.
    """

    def __init__(self, count: int, within: tuple[float | None, float | None] = (None, None)) -> None:
        self._count = count
        self._least, self._bound = within
        self._distances = [np.empty(0, np.float32)]
        self._rows = [np.empty(0, np.uint64)]
        self._kept = 0
        self.worst = np.float32(np.inf)
        """No row with a greater distance than this is among the best."""

    def add(self, distances: np.ndarray, rows: np.ndarray, allowed: np.ndarray | None = None) -> None:
        """Add rows with their distances (float32); those that are `allowed` (None: all)."""
        with np.errstate(invalid="ignore"):
            kept = distances <= self.worst
            if self._least is not None:
                kept &= distances >= np.float32(self._least)
            if self._bound is not None:
                kept &= distances < np.float32(self._bound)
        if allowed is not None:
            kept &= allowed
        which = np.flatnonzero(kept)
        if len(which) > self._count:
            nearest = np.argpartition(distances[which], self._count - 1)[: self._count]
            which = which[nearest]
        self._distances.append(distances[which])
        self._rows.append(rows[which])
        self._kept += len(which)
        if self._kept > 2 * self._count or (self._kept >= self._count and np.isinf(self.worst)):
            self._cut()

    def _cut(self) -> None:
        distances, rows = np.concatenate(self._distances), np.concatenate(self._rows)
        if len(rows) > self._count:
            order = np.lexsort((rows, distances))[: self._count]
            distances, rows = distances[order], rows[order]
        self._distances, self._rows, self._kept = [distances], [rows], len(rows)
        if len(rows) == self._count:
            self.worst = distances.max()

    def __len__(self) -> int:
        """The number of rows found so far, at most `count`."""
        return min(self._kept, self._count)

    def found(self) -> tuple[np.ndarray, np.ndarray]:
        """The distances and the rows, in order of the distance, then of the row."""
        self._cut()
        order = np.lexsort((self._rows[0], self._distances[0]))
        return self._distances[0][order], self._rows[0][order]
