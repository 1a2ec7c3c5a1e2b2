"""The nearest vectors by comparing the query with every vector."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_spark.index.vector.best import Best
from lance_spark.index.vector.distances import computed_in, distances
from lance_spark.index.vector.vectors import lists_of_vectors, matrix
from lance_spark.predicate import Predicate
from lance_spark.predicate.evaluate import raw_values
from lance_spark.predicate.tree import Column
from lance_spark.schema.schema import quoted
from lance_spark.table.scan.plan import ScanPlan, plan_tasks
from lance_spark.table.scan.take import take_by_row_id
from lance_spark.table.scan.task import read_task
from lance_spark.table.search.nearest import Nearest
from lance_spark.table.versions.snapshot import Snapshot

_ADDRESS = "_rowaddr"


def search(
    snapshot: Snapshot, nearest: Nearest, metric: str, predicate: Predicate | None, fragments: frozenset[int] | None, best: Sequence[Best]
) -> None:
    """Add the vectors of the `fragments` (None: all) whose rows satisfy the predicate to the `best` of each query.

    The column is read once for all queries.
    """
    plan = ScanPlan((quoted(nearest.path), _ADDRESS), predicate, fragments=fragments)
    for task in plan_tasks(snapshot, plan):
        for batch in read_task(task):
            compared = _Compared(nearest, metric, batch)
            for query, own in enumerate(best):
                own.add(compared.distances(query), compared.addresses)


def exact_distances(snapshot: Snapshot, nearest: Nearest, metric: str, addresses: np.ndarray, query: int) -> np.ndarray:
    """The distances (float32) of a query to the vectors of the rows at these addresses, in their order."""
    wanted, back = np.unique(addresses, return_inverse=True)
    rows = take_by_row_id(snapshot, wanted, ScanPlan((quoted(nearest.path), _ADDRESS)), are_addresses=True)
    found = [np.empty(0, np.float32), *(_Compared(nearest, metric, batch).distances(query) for batch in rows.to_batches())]
    return np.asarray(np.concatenate(found)[back.reshape(-1)])


class _Compared:
    """The vectors of a batch, which queries are compared with."""

    def __init__(self, nearest: Nearest, metric: str, batch: pa.RecordBatch) -> None:
        self._nearest, self._metric = nearest, metric
        self.addresses: np.ndarray = batch.column(_ADDRESS).to_numpy()
        array = raw_values(Column(nearest.path, nearest.field.type), batch)
        self._lists = lists_of_vectors(array) if nearest.several else None
        vectors, self._valid = matrix(array if self._lists is None else self._lists[0])
        self._vectors = vectors.astype(computed_in(vectors.dtype), copy=False)

    def distances(self, query: int) -> np.ndarray:
        """The distances of the query with this number; NaN for rows that have none."""
        if self._lists is None:
            return self._masked(distances(self._nearest.queries[query], self._vectors, self._metric))
        return _of_lists([self._masked(distances(q, self._vectors, self._metric)) for q in self._nearest.queries], *self._lists[1:])

    def _masked(self, found: np.ndarray) -> np.ndarray:
        found[~self._valid] = np.nan
        return found


def _of_lists(each: Sequence[np.ndarray], first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The distances of rows with several vectors: of each vector of the query, the distance of the nearest vector of the row, summed up.

    `each` are the distances of all vectors to one of the query; rows have those from `first` to `last`.
    """
    sums = np.zeros(len(first), np.float32)
    filled = last > first
    sums[~filled] = np.nan
    for found in each:
        sums[filled] += _least(found, first[filled], last[filled])
    return sums


def _least(values: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The smallest value, NaN only if there is no other, in each of the ranges, which are in order and not empty."""
    if not len(first):
        return np.empty(0, np.float32)
    bounds = np.stack([first, last], axis=1).ravel()
    return np.asarray(np.fmin.reduceat(np.append(values, np.float32(np.nan)), bounds)[::2])
