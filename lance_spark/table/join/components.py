"""Groups of rows that pairs connect, directly or through other rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from lance_spark.kernels.kernel import kernel

_PAIRS = 4 << 20
"""More pairs than so many are reduced to one pair for each row."""
_BATCH_ROWS = 64 << 10


def components(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each row (int64) in the pairs that the two columns have, and the lowest one of its group: pairs, too, which connect the same rows.

    The memory is bounded by the number of rows that have pairs.
    """
    rows, firsts = np.empty(0, np.int64), np.empty(0, np.int64)
    waiting: list[tuple[np.ndarray, np.ndarray]] = []
    count, names = 0, None
    for batch in batches:
        names = batch.schema.names
        waiting.append((batch.column(0).to_numpy(), batch.column(1).to_numpy()))
        count += batch.num_rows
        if count > max(_PAIRS, len(rows)):
            rows, firsts = _joined([(rows, firsts), *waiting])
            waiting, count = [], 0
    rows, firsts = _joined([(rows, firsts), *waiting])
    for start in range(0, len(rows), _BATCH_ROWS):
        some = slice(start, start + _BATCH_ROWS)
        yield pa.RecordBatch.from_arrays([pa.array(rows[some]), pa.array(firsts[some])], names=names)


def _joined(pairs: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """All rows of the pairs, ascending, and the lowest one of the group of each."""
    a, b = (np.concatenate(side) for side in zip(*pairs))
    rows, places = np.unique(np.concatenate([a, b]), return_inverse=True)
    places = places.reshape(-1)
    first = np.arange(len(rows))
    connect(places[: len(a)], places[len(a) :], first)
    return rows, rows[first]


@kernel
def connect(a: np.ndarray, b: np.ndarray, first: np.ndarray) -> None:
    """Store in `first`, at first the numbers from 0 on, the lowest one of the group of each number, by the pairs `a[i]`, `b[i]`."""
    for i in range(len(a)):
        x, y = a[i], b[i]
        while first[x] != x:
            first[x] = first[first[x]]
            x = first[x]
        while first[y] != y:
            first[y] = first[first[y]]
            y = first[y]
        if x < y:
            first[y] = x
        else:
            first[x] = y
    for i in range(len(first)):  # a number points to a lower one, which points to the lowest of its group already
        first[i] = first[first[i]]
