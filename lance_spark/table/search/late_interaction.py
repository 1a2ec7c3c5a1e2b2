"""Searching an index of a column of lists of vectors, for a query of several vectors (late interaction).

The index has each vector of each row. It is searched for every vector of the query; the rows that are found are candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lance_spark.index.vector.best import Best
from lance_spark.table.scan.runner import Runner
from lance_spark.table.search.brute_force import exact_distances
from lance_spark.table.search.index_search import IndexSearch
from lance_spark.table.search.nearest import Nearest
from lance_spark.table.search.segments import wanted_of

OVERFETCH = 10
"""For each vector of the query, so many times `k` vectors are taken from the index; the number is pylance's."""
_ROWS_AT_ONCE = 1 << 10
"""The vectors of so many rows are read at once: a row may have hundreds."""


@dataclass(frozen=True)
class LateInteraction:
    """A search of an index for a query of several vectors. `allowed` are as for `IndexSearch.search`."""

    index: IndexSearch
    nearest: Nearest
    allowed: np.ndarray | None
    runner: Runner

    def add_to(self, best: Best) -> None:
        """Add the nearest rows, with distances that are computed from their vectors. Raises DamagedSegmentError.

        With a `refine_factor`, so many times `k` candidates are compared, the best ones by their estimates, as in pylance.
        Without, all are: an estimate that lacks most vectors of a row misses many of the nearest rows.
        """
        rows = self._candidates()
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[start : start + _ROWS_AT_ONCE]
            best.add(exact_distances(self.index.snapshot, self.nearest, self.index.metric, {0: some})[0], some)

    def _candidates(self) -> np.ndarray:
        """The addresses of the rows whose distances are computed, ascending."""
        factor = self.nearest.refine_factor
        wanted_rows = self.nearest.k * (factor or 1)
        wanted_vectors = self.nearest.k
        while True:
            found = self._nearest_vectors(wanted_vectors)
            rows = np.unique(np.concatenate([addresses for _, addresses in found]))
            # Rows have several vectors, so there may be fewer rows than vectors that were found.
            is_all = all(len(addresses) < wanted_vectors for _, addresses in found)
            if len(rows) >= self.nearest.k or is_all:
                break
            wanted_vectors *= OVERFETCH
        if factor is None or len(rows) <= wanted_rows:
            return rows
        estimates = estimated_distances(found, rows)
        return np.sort(rows[np.lexsort((rows, estimates))[:wanted_rows]])

    def _nearest_vectors(self, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each vector of the query, the distances of the nearest vectors in the index, ascending, and their rows."""
        single = replace(
            self.nearest,
            several=False,
            k=count,
            refine_factor=OVERFETCH,
            distance_range=(None, None),
        )
        wanted = wanted_of(single, self.index.metric, exact=True)
        best = [Best(wanted.count) for _ in single.queries]
        self.index.search(single, wanted, self.allowed, best, self.runner)
        return [own.found() for own in best]


def estimated_distances(found: Sequence[tuple[np.ndarray, np.ndarray]], rows: np.ndarray) -> np.ndarray:
    """The distance of each of the `rows` (ascending addresses) by the vectors that were `found` for those of the query.

    A row that was not found for a vector counts as the farthest one that was: the estimate of XTR, as in pylance.
    """
    estimates = np.zeros(len(rows), np.float32)
    for distances, addresses in found:
        if not len(distances):
            estimates += np.float32(1)  # pylance counts a similarity of 0
            continue
        own = np.full(len(rows), distances[-1])
        # They ascend: the first of several vectors of a row is the nearest one.
        own_rows, first = np.unique(addresses, return_index=True)
        own[np.searchsorted(rows, own_rows)] = distances[first]
        estimates += own
    return estimates
