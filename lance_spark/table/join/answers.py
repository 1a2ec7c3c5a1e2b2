"""The nearest rows of questions among those that were found in all groups, and their columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lance_spark.index.vector.best import Best
from lance_spark.index.vector.neighbors import NONE, Neighbors, joined
from lance_spark.table.join.plan import NearestJoin
from lance_spark.table.scan.runner import Here
from lance_spark.table.search.index_search import IndexSearch, Refinement
from lance_spark.table.search.nearest import Nearest
from lance_spark.table.search.segments import open_segment, unsettled_queries

_CUT_ROWS = 1 << 20
"""More rows than so many, that were found for some questions, are reduced to the nearest ones."""


class Gathered:
    """What was found for some questions, in bounded memory: of each question, at most `most` rows are wanted."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: list[Neighbors] = []
        self._rows = 0
        self._bound = _CUT_ROWS

    def add(self, found: Neighbors) -> None:
        """Add rows."""
        self._parts.append(found)
        self._rows += len(found)
        if self._rows > self._bound:
            self._parts = [self.all().nearest(self._most)]
            self._rows = len(self._parts[0])
            self._bound = max(_CUT_ROWS, 2 * self._rows)

    def all(self) -> Neighbors:
        """All rows, in no order."""
        return joined(self._parts)


def answers(join: NearestJoin, queries: np.ndarray, estimated: Neighbors, computed: Neighbors) -> Neighbors:
    """The nearest rows of each query, in the order of queries and distances, of those found by the index and by scans."""
    nearest = replace(join.nearest, queries=queries, many=True)
    of_index = _of_index(join, nearest, estimated) if join.segments else NONE
    return joined([computed, of_index]).nearest(nearest.k)


def _of_index(join: NearestJoin, nearest: Nearest, estimated: Neighbors) -> Neighbors:
    """The rows of the index, with distances that are computed from their vectors if the join wants these.

    A query is searched for alone where single searches decide otherwise, see `search_together`.
    """
    found, queries = estimated.nearest(join.room), range(len(nearest.queries))
    unsettled = unsettled_queries(found, queries, nearest.k, join.wanted, join.all_searched)
    settled = found.at((found.ranks() < join.wanted.count) & ~np.isin(found.queries, unsettled))
    if not join.exact and not len(unsettled):
        return settled
    index = IndexSearch(join.version.snapshot, [open_segment(join.version.snapshot, s, nearest) for s in join.segments])
    alone = [_found_alone(join, nearest, index, number) for number in unsettled.tolist()]
    rows = joined([settled, *alone])
    if not join.exact:
        return rows
    candidates = dict.fromkeys(queries, NONE.addresses)
    candidates |= {number: own.addresses for number, own in rows.nearest(join.wanted.count).of_each().items()}
    refined = Refinement(index, nearest, join.wanted, join.allowed).best(candidates)
    return joined([_neighbors(number, best) for number, best in refined.items()])


def _found_alone(join: NearestJoin, nearest: Nearest, index: IndexSearch, number: int) -> Neighbors:
    """What the index finds for the query with this number."""
    best = Best(join.wanted.count, join.wanted.within)
    own = replace(nearest, queries=nearest.queries[number : number + 1])
    index.search(own, join.wanted, join.allowed, [best], Here())
    return _neighbors(number, best)


def _neighbors(number: int, best: Best) -> Neighbors:
    """The best rows of the query with this number."""
    distances, addresses = best.found()
    return Neighbors(np.full(len(addresses), number), distances, addresses)
