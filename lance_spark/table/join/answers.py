"""The nearest rows of questions among those that were found in all groups, and their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lance_spark.index.vector.best import Best
from lance_spark.table.join.plan import NearestJoin
from lance_spark.table.scan.runner import Here
from lance_spark.table.search.brute_force import exact_distances
from lance_spark.table.search.index_search import IndexSearch
from lance_spark.table.search.segments import add_or_leave, open_segment

Triples = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Numbers of questions (int64), distances (float32) and addresses of rows (uint64)."""

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
            self._parts = [_nearest(self.all(), self._most)]
            self._rows = len(self._parts[0][0])
            self._bound = max(_CUT_ROWS, 2 * self._rows)

    def all(self) -> Triples:
        """All rows, in no order."""
        if not self._parts:
            return np.empty(0, np.int64), np.empty(0, np.float32), np.empty(0, np.uint64)
        numbers, distances, rows = (np.concatenate(parts) for parts in zip(*self._parts))
        return numbers, distances, rows


def _nearest(found: Triples, most: int) -> Triples:
    """At most so many rows of each question, the nearest ones, of those at one distance the ones with the lowest addresses."""
    numbers, distances, rows = found
    order = np.lexsort((rows, distances, numbers))
    numbers, distances, rows = numbers[order], distances[order], rows[order]
    begins = np.flatnonzero(np.diff(numbers, prepend=-1))
    rank = np.arange(len(numbers)) - np.repeat(begins, np.diff(np.append(begins, len(numbers))))
    return numbers[rank < most], distances[rank < most], rows[rank < most]


def answers(join: NearestJoin, queries: np.ndarray, estimated: Triples, computed: Triples) -> Triples:
    """The nearest rows of each query, in the order of queries and distances, of those found by the index and by scans."""
    nearest = replace(join.nearest, queries=queries, many=True)
    best = [Best(nearest.k, nearest.distance_range) for _ in queries]
    if join.segments:
        found = [Best(join.candidates) for _ in queries] if join.exact else best
        _add_of_index(join, queries, estimated, found)
        if join.exact:
            addresses = {number: np.unique(own.found()[1]) for number, own in enumerate(found)}
            for number, distances in exact_distances(join.version.snapshot, nearest, join.metric, addresses).items():
                best[number].add(distances, addresses[number])
    numbers, distances, rows = _nearest(computed, nearest.k)
    bounds = np.searchsorted(numbers, np.arange(len(queries) + 1))
    for number in np.flatnonzero(np.diff(bounds)).tolist():
        own = slice(bounds[number], bounds[number + 1])
        best[number].add(distances[own], rows[own])
    nearest_rows = [own.found() for own in best]
    counts = [len(rows) for _, rows in nearest_rows]
    distances, rows = (np.concatenate(parts) for parts in zip(*nearest_rows))
    return np.repeat(np.arange(len(queries)), counts), distances, rows


def _add_of_index(join: NearestJoin, queries: np.ndarray, estimated: Triples, best: Sequence[Best]) -> None:
    """Add the rows of the index; a query is searched for alone where single searches decide otherwise, see `search_together`."""
    nearest, snapshot = join.nearest, join.version.snapshot
    alone = add_or_leave([estimated], range(len(queries)), nearest.k, join.room, join.all_searched, best)
    if not alone:
        return
    index = IndexSearch(snapshot, [open_segment(snapshot, segment, nearest) for segment in join.segments])
    for number in alone:
        index.search(replace(nearest, queries=queries[number : number + 1]), join.allowed, [best[number]], Here())
