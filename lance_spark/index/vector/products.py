"""Products of matrices. Those of many queries tell the distances nearly; those of the nearest vectors are then computed exactly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lance_spark.index.vector.best import Best
from lance_spark.index.vector.distances import distances
from lance_spark.kernels.kernel import kernel

PRODUCTS = ("l2", "cosine", "dot")
"""The metrics whose distances follow from products."""

_BLOCK_BYTES = 8 << 20
"""The near distances of a block of vectors to some queries take at most so many bytes."""
_QUERIES = 256
"""So many queries at once: with more, a block has few vectors, and for each query and block some steps are interpreted."""


def add_nearest(queries: np.ndarray, vectors: np.ndarray, rows: np.ndarray, metric: str, count: int, best: Sequence[Best]) -> None:
    """Add to the `best` of each query the `rows` (uint64) of the vectors that may be among its `count` nearest.

    Vectors and queries are rows of matrices of one type, float32 or float64.
    """
    for first in range(0, len(queries), _QUERIES):
        some = slice(first, first + _QUERIES)
        _add_nearest(queries[some], vectors, rows, metric, count, best[some])


def _add_nearest(queries: np.ndarray, vectors: np.ndarray, rows: np.ndarray, metric: str, count: int, best: Sequence[Best]) -> None:
    block = max(_BLOCK_BYTES // (len(queries) * vectors.itemsize), 1)
    with np.errstate(all="ignore"):  # vectors may have any values
        own = np.einsum("ij,ij->i", queries, queries)
        for start in range(0, len(vectors), block):
            some, places = vectors[start : start + block], rows[start : start + block]
            squares = np.einsum("ij,ij->i", some, some)
            # Products with huge numbers or NaN do not tell distances.
            told = np.isfinite(squares.max(initial=0) * own.max(initial=0))
            for query, kept in enumerate(best if not told else ()):
                kept.add(distances(queries[query], some, metric), places)
            if told:
                _add_block(queries, own, some, squares, places, metric, count, best)


def _add_block(
    queries: np.ndarray,
    own: np.ndarray,
    vectors: np.ndarray,
    squares: np.ndarray,
    rows: np.ndarray,
    metric: str,
    count: int,
    best: Sequence[Best],
) -> None:
    """The same for a block; `own` and `squares` are the squared lengths of queries and vectors, which are finite."""
    near = (queries * queries.dtype.type(-2 if metric == "l2" else -1)) @ vectors.T
    # An error of one unit for each number is far more than what products have.
    unit = np.finfo(near.dtype).eps * vectors.shape[1]
    longest = squares.max(initial=0)
    if metric == "l2":
        margins = unit * (own + longest)
        near += squares
        near += own[:, None]
    elif metric == "dot":
        margins = unit * (1 + np.sqrt(own * longest))
        near += 1
    else:
        margins = np.full(len(queries), 4 * unit)
        near /= np.sqrt(own[:, None] * squares)
        near += 1
    worst = np.array([kept.worst for kept in best])
    for query in np.flatnonzero(np.fmin.reduce(near, axis=1) <= worst + margins).tolist():
        kept, limit = best[query], float(worst[query])
        if np.isinf(limit):
            limit = np.inf if len(rows) <= count else float(np.partition(near[query], count - 1)[count - 1] + margins[query])
        which = np.flatnonzero(near[query] <= limit + margins[query])
        kept.add(distances(queries[query], vectors[which], metric), rows[which])


@kernel
def add_products(queries: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    """Add to `out[q, i]` (float32) the product of `queries[q]` (float32) and the column i of `columns`, dimension by dimension.

    For small matrices, this is as fast as a product by BLAS, whose threads would wait for each other; and sums do not depend on their size.
    """
    size, count = columns.shape
    fours = queries.shape[0] // 4 * 4
    for q in range(0, fours, 4):  # a number of a column is read once for four queries
        first, second, third, fourth = out[q], out[q + 1], out[q + 2], out[q + 3]
        for d in range(0, size, 2):
            some, more = columns[d], columns[min(d + 1, size - 1)]
            of = queries[q : q + 4, d : d + 2]
            last = of.shape[1] - 1
            for i in range(count):
                x = np.float32(some[i])
                y = np.float32(more[i]) if last else np.float32(0)
                first[i] = first[i] + of[0, 0] * x + of[0, last] * y
                second[i] = second[i] + of[1, 0] * x + of[1, last] * y
                third[i] = third[i] + of[2, 0] * x + of[2, last] * y
                fourth[i] = fourth[i] + of[3, 0] * x + of[3, last] * y
    for q in range(fours, queries.shape[0]):
        query, own = queries[q], out[q]
        for d in range(0, size - 3, 4):  # the sums of four dimensions stay in a register
            for i in range(count):
                total = own[i] + query[d] * np.float32(columns[d, i])
                total += query[d + 1] * np.float32(columns[d + 1, i])
                total += query[d + 2] * np.float32(columns[d + 2, i])
                own[i] = total + query[d + 3] * np.float32(columns[d + 3, i])
        for d in range(size - size % 4, size):
            for i in range(count):
                own[i] += query[d] * np.float32(columns[d, i])
