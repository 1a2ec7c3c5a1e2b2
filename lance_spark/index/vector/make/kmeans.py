"""K-means: centroids, each of which is the mean of the vectors that are nearest to it."""

from __future__ import annotations

import numpy as np

from lance_spark.index.vector.make.nearest import nearest_of
from lance_spark.kernels.kernel import kernel

MAX_ITERATIONS = 50
SAMPLE_RATE = 256
"""Vectors for each centroid that are trained with."""

_TOLERANCE = 1e-4
"""The training ends when the sum of the distances changes by less than this part."""

_AT_ONCE = 256
"""More centroids are trained in groups: each group is trained with the vectors of one of a few centroids."""


def kmeans(vectors: np.ndarray, count: int, metric: str, max_iterations: int, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    """At most `count` centroids (float32) of the vectors, which are at least as many, and the sum of the distances to them.

    Under hamming, vectors are rows of bits (float32 of 0 and 1), and so are centroids.
    """
    if count <= _AT_ONCE:
        return _trained(vectors, count, metric, max_iterations, rng)
    coarse, _ = _trained(vectors, int(np.sqrt(count)), metric, max_iterations, rng)
    members, _ = nearest_of(vectors, coarse, metric == "dot")
    order = np.argsort(members, kind="stable")
    sizes = np.bincount(members, minlength=len(coarse))
    found, loss, first = [], 0.0, 0
    for size, own in zip(sizes.tolist(), shared(sizes, count).tolist()):
        if own:
            centroids, distance = kmeans(vectors[order[first : first + size]], own, metric, max_iterations, rng)
            found.append(centroids)
            loss += distance
        first += size
    return np.concatenate(found), loss


def shared(sizes: np.ndarray, count: int) -> np.ndarray:
    """`count` divided in proportion to the sizes: 1 or more for each that is not 0, and at most the size; their sum is `count`."""
    shares = np.minimum(np.maximum(sizes * count // max(int(sizes.sum()), 1), sizes > 0), sizes)
    while (left := count - int(shares.sum())) != 0:
        # Those that are farthest from their exact part are corrected first.
        exact = sizes * count / sizes.sum()
        may = shares < sizes if left > 0 else shares > 1
        order = np.argsort((exact - shares) * (-1 if left > 0 else 1) + np.where(may, 0, np.inf), kind="stable")
        chosen = order[: min(abs(left), int(may.sum()))]
        shares[chosen] += 1 if left > 0 else -1
    return np.asarray(shares)


def _trained(vectors: np.ndarray, count: int, metric: str, max_iterations: int, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    centroids = vectors[np.sort(rng.choice(len(vectors), count, replace=False))].astype(np.float32)
    before, loss = np.inf, 0.0
    for _ in range(max_iterations):
        members, distances = nearest_of(vectors, centroids, metric == "dot")
        loss = float(distances.sum(dtype=np.float64))
        if (np.isfinite(before) and abs(before - loss) <= _TOLERANCE * abs(before)) or not np.isfinite(loss):
            break
        before = loss
        centroids = _means(vectors, members, centroids, distances)
        if metric == "hamming":
            centroids = (centroids > 0.5).astype(np.float32)
    return centroids, loss


def _means(vectors: np.ndarray, members: np.ndarray, centroids: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """The means of the members of each centroid. One without members moves to a vector that is far from its own."""
    sums, sizes = np.zeros(centroids.shape, np.float64), np.bincount(members, minlength=len(centroids))
    add_members(vectors, members, sums)
    means = (sums / np.maximum(sizes, 1)[:, None]).astype(np.float32)
    empty = np.flatnonzero(sizes == 0)
    if len(empty):
        means[empty] = vectors[np.argpartition(-distances, len(empty) - 1)[: len(empty)]]
    return means


@kernel
def add_members(vectors: np.ndarray, members: np.ndarray, sums: np.ndarray) -> None:
    """Add each vector (float32) to the row of `sums` (float64) with its number in `members` (int64), which is one of them."""
    for i in range(vectors.shape[0]):
        row = members[i]
        for j in range(vectors.shape[1]):
            sums[row, j] += vectors[i, j]
