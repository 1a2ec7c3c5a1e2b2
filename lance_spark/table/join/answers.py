"""The nearest rows of questions among those that were found in all groups, and their columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lance_spark.index.vector.best import Best
from lance_spark.table.join.plan import NearestJoin
from lance_spark.table.scan.runner import Here
from lance_spark.table.search.brute_force import exact_distances
from lance_spark.table.search.index_search import IndexSearch
from lance_spark.table.search.nearest import Nearest
from lance_spark.table.search.segments import Triples, joined, nearest_of_each, open_segment, settled

_CUT_ROWS = 1 << 20
"""More rows than so many, that were found for some questions, are reduced to the nearest ones."""


class Gathered:
    """What was found for some questions, in bounded memory: of each question, at most `most` rows are wanted."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: list[Triples] = []
        self._rows = 0
        self._bound = _CUT_ROWS

    def add(self, numbers: np.ndarray, distances: np.ndarray, rows: np.ndarray) -> None:
        """Add rows."""
        self._parts.append((numbers, distances, rows))
        self._rows += len(rows)
        if self._rows > self._bound:
            self._parts = [nearest_of_each(self.all(), self._most)]
            self._rows = len(self._parts[0][0])
            self._bound = max(_CUT_ROWS, 2 * self._rows)

    def all(self) -> Triples:
        """All rows, in no order."""
        return joined(self._parts)


def answers(join: NearestJoin, queries: np.ndarray, estimated: Triples, computed: Triples) -> Triples:
    """The nearest rows of each query, in the order of queries and distances, of those found by the index and by scans."""
    nearest = replace(join.nearest, queries=queries, many=True)
    found = [computed]
    if join.segments:
        of_index = _of_index(join, nearest, estimated)
        found.append(_computed(join, nearest, of_index) if join.exact else of_index)
    return nearest_of_each(joined(found), nearest.k)


def _of_index(join: NearestJoin, nearest: Nearest, estimated: Triples) -> Triples:
    """The rows of the index; a query is searched for alone where single searches decide otherwise, see `search_together`."""
    snapshot, queries = join.version.snapshot, nearest.queries
    own, alone = settled(estimated, range(len(queries)), nearest.k, join.candidates, join.room, join.all_searched)
    if not alone:
        return own
    found = [own]
    index = IndexSearch(snapshot, [open_segment(snapshot, segment, nearest) for segment in join.segments])
    for number in alone:
        best = Best(join.candidates, (None, None) if join.exact else nearest.distance_range)
        index.search(replace(nearest, queries=queries[number : number + 1]), join.allowed, [best], Here())
        distances, rows = best.found()
        found.append((np.full(len(rows), number), distances, rows))
    return joined(found)


def _computed(join: NearestJoin, nearest: Nearest, found: Triples) -> Triples:
    """The same rows with their distances computed from vectors, those within the bounds."""
    numbers, distances, rows = found
    asked, of = np.unique(numbers, return_inverse=True)
    order = np.lexsort((rows, of))
    each = np.split(rows[order], np.cumsum(np.bincount(of, minlength=len(asked)))[:-1])
    addresses = {number: np.unique(own) for number, own in zip(asked.tolist(), each)}
    best = {number: Best(nearest.k, nearest.distance_range) for number in addresses}
    for number, distances in exact_distances(join.version.snapshot, nearest, join.metric, addresses).items():
        best[number].add(distances, addresses[number])
    return joined([(np.full(len(own), number), *own.found()) for number, own in best.items()])
