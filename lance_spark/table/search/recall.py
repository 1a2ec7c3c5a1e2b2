"""How many of the nearest rows a search finds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lance_spark.table.scan.plan import ScanPlan
from lance_spark.table.search.brute_force import exact_distances
from lance_spark.table.search.index_search import index_search, lost_segments
from lance_spark.table.search.nearest import Nearest
from lance_spark.table.search.vector_search import VectorSearch
from lance_spark.table.versions.snapshot import Snapshot, in_use

_EQUAL = 1e-5
"""Distances that differ by a smaller share are equal."""


def recall(snapshot: Snapshot, nearest: Nearest) -> float:
    """The share of the nearest rows, those that brute force finds, that the search finds; 1 if there are none.

    Rows are compared by their distances: of several at the same distance, any may be found.
    """
    index = index_search(snapshot, nearest)
    metric = VectorSearch(nearest).metric(index, lost_segments(snapshot, nearest))
    exact = replace(nearest, use_index=False, metric=metric)
    wanted = found = 0
    with in_use(snapshot):
        for number, vector in enumerate([nearest.queries] if nearest.several else nearest.queries):
            one = np.atleast_2d(vector)
            best = VectorSearch(replace(exact, queries=one, many=False)).hits(snapshot, ScanPlan())
            own = VectorSearch(replace(nearest, queries=one, many=False)).hits(snapshot, ScanPlan())
            distances = best.columns["_distance"].to_numpy()
            wanted += len(distances)
            if len(distances):
                last = distances[-1] + _EQUAL * abs(distances[-1])
                there = exact_distances(snapshot, nearest, metric, {number: own.addresses})[number]
                found += min(int(np.count_nonzero(there <= last)), len(distances))
    return found / wanted if wanted else 1.0
