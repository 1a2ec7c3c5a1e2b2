"""The nearest vectors by comparing the query with every vector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from lance_spark.index.vector.best import Best
from lance_spark.index.vector.distances import computed_in, distances
from lance_spark.index.vector.products import PRODUCTS, add_nearest
from lance_spark.index.vector.vectors import lists_of_vectors, matrix
from lance_spark.predicate import Predicate
from lance_spark.predicate.evaluate import raw_values
from lance_spark.predicate.tree import Column
from lance_spark.schema.schema import quoted
from lance_spark.table.scan.plan import ScanPlan, plan_tasks
from lance_spark.table.scan.runner import Here, Runner
from lance_spark.table.scan.take import take_by_row_id
from lance_spark.table.scan.task import ScanTask
from lance_spark.table.search.nearest import Nearest
from lance_spark.table.versions.snapshot import Snapshot

_ADDRESS = "_rowaddr"

_ROWS_BYTES = 64 << 20
"""Vectors of rows that several queries are compared with take at most so many bytes at once."""


def search(
    snapshot: Snapshot,
    nearest: Nearest,
    metric: str,
    predicate: Predicate | None,
    fragments: frozenset[int] | None,
    best: Sequence[Best],
    runner: Runner,
) -> None:
    """Add the vectors of the `fragments` (None: all) whose rows satisfy the predicate to the `best` of each query.

    The column is read once for all queries.
    """
    plan = ScanPlan((quoted(nearest.path), _ADDRESS), predicate, fragments=fragments)
    tasks = plan_tasks(snapshot, plan, runner.cores)
    if isinstance(runner, Here):
        for task in tasks:  # rows that are farther than those of the tasks before need not be kept
            _add(nearest, metric, task, best)
        return
    for found in runner.run(tasks, partial(nearest_of_task, nearest, metric, best[0].count)):
        for own, of_task in zip(best, found):
            own.add(*of_task)


def nearest_of_task(nearest: Nearest, metric: str, count: int, task: ScanTask) -> list[tuple[np.ndarray, np.ndarray]]:
    """The distances and the rows that a task finds for each query."""
    best = [Best(count, nearest.distance_range) for _ in range(nearest.searches)]
    _add(nearest, metric, task, best)
    return [own.found() for own in best]


def _add(nearest: Nearest, metric: str, task: ScanTask, best: Sequence[Best]) -> None:
    for batch in task.read():
        _Compared(nearest, metric, batch).add_to(best)


def exact_distances(snapshot: Snapshot, nearest: Nearest, metric: str, addresses: Mapping[int, np.ndarray]) -> dict[int, np.ndarray]:
    """The distances (float32) of queries, by their number, to the vectors of the rows at these addresses, in their order.

    Rows of several queries are read once, as long as they take little memory.
    """
    found: dict[int, np.ndarray] = {}
    for queries in _at_once(nearest, addresses):
        wanted, back = np.unique(np.concatenate([addresses[q] for q in queries]), return_inverse=True)
        rows = take_by_row_id(snapshot, wanted, ScanPlan((quoted(nearest.path), _ADDRESS)), are_addresses=True).combine_chunks()
        places = np.split(back.reshape(-1), np.cumsum([len(addresses[q]) for q in queries])[:-1])
        compared = [_Compared(nearest, metric, batch) for batch in rows.to_batches()]
        for query, own in zip(queries, places):
            found[query] = compared[0].distances(query, own) if compared else np.empty(0, np.float32)
    return found


def vectors_at(snapshot: Snapshot, nearest: Nearest, addresses: np.ndarray) -> np.ndarray:
    """The vectors of the rows at these addresses, which all have one, as queries are compared."""
    rows = take_by_row_id(snapshot, addresses, ScanPlan((quoted(nearest.path), _ADDRESS)), are_addresses=True).combine_chunks()
    vectors, _ = matrix(raw_values(Column(nearest.path, nearest.field.type), rows.to_batches()[0]))
    return np.ascontiguousarray(vectors.astype(computed_in(vectors.dtype)))


def _at_once(nearest: Nearest, addresses: Mapping[int, np.ndarray]) -> Iterator[Sequence[int]]:
    """The queries in groups whose rows take at most `_ROWS_BYTES` in memory, or one query each."""
    most = max(_ROWS_BYTES // nearest.queries[0].nbytes, 1)
    group: list[int] = []
    rows = 0
    for query, own in addresses.items():
        if group and rows + len(own) > most:
            yield group
            group, rows = [], 0
        group.append(query)
        rows += len(own)
    if group:
        yield group


class _Compared:
    """The vectors of a batch, which queries are compared with."""

    def __init__(self, nearest: Nearest, metric: str, batch: pa.RecordBatch) -> None:
        self._nearest, self._metric = nearest, metric
        self.addresses: np.ndarray = batch.column(_ADDRESS).to_numpy()
        array = raw_values(Column(nearest.path, nearest.field.type), batch)
        self._lists = lists_of_vectors(array) if nearest.several else None
        vectors, self._valid = matrix(array if self._lists is None else self._lists[0])
        self._vectors = vectors.astype(computed_in(vectors.dtype), copy=False)

    def add_to(self, best: Sequence[Best]) -> None:
        """Add the rows to the best of each query."""
        nearest = self._nearest
        if self._lists is None and len(best) > 1 and self._metric in PRODUCTS and nearest.distance_range[0] is None:
            vectors, addresses = self._vectors, self.addresses
            if not self._valid.all():
                vectors, addresses = vectors[self._valid], addresses[self._valid]
            add_nearest(nearest.queries, vectors, addresses, self._metric, nearest.k, best)
            return
        for query, own in enumerate(best):
            own.add(self.distances(query), self.addresses)

    def distances(self, query: int, rows: np.ndarray | None = None) -> np.ndarray:
        """The distances of the query with this number to some rows (None: all); NaN for rows that have none."""
        if self._lists is None:
            vectors = self._vectors if rows is None else self._vectors[rows]
            found = distances(self._nearest.queries[query], vectors, self._metric)
            found[~self._valid if rows is None else ~self._valid[rows]] = np.nan
            return found
        of_each = [self._masked(distances(q, self._vectors, self._metric)) for q in self._nearest.queries]
        found = _of_lists(of_each, *self._lists[1:])
        return found if rows is None else found[rows]

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
