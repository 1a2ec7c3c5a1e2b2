"""Building HNSW: vectors join the graph of a partition one after another, each with edges to some near ones that joined before.

`index.idx` has a row for each vector of each level; see `index.vector.hnsw`, which reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.index.vector.codes import Quantizer
from lance_spark.index.vector.compared import OF_METRIC
from lance_spark.index.vector.distances import computed_in
from lance_spark.index.vector.make.encode import Columns
from lance_spark.index.vector.make.join_graph import join_graph
from lance_spark.index.vector.make.recipe import GraphShape
from lance_spark.index.vector.pq import ProductQuantizer
from lance_spark.index.vector.sq import ScalarQuantizer

SCHEMA = pa.schema(
    [
        pa.field("__vector_id", pa.uint32()),
        pa.field("__neighbors", pa.list_(pa.uint32())),
        pa.field("_distance", pa.list_(pa.float32())),
    ]
)

_SEED = 42
"""The same vectors give the same graph."""

_PREFETCH = 2
"""A hint for the processor, which is stored with every graph; this is pylance's default."""


@dataclass(frozen=True)
class MadeGraph:
    """The rows of the graph of a partition, level by level: the vector of each, and its neighbours, the nearest first."""

    ids: np.ndarray
    counts: np.ndarray
    neighbours: np.ndarray
    distances: np.ndarray
    bounds: list[int]
    entry: int

    def columns(self) -> Iterator[pa.Array]:
        """The columns of SCHEMA."""
        offsets = pa.array(np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int32))
        yield pa.array(self.ids)
        yield pa.ListArray.from_arrays(offsets, pa.array(self.neighbours))
        yield pa.ListArray.from_arrays(offsets, pa.array(self.distances))

    def told(self, shape: GraphShape) -> dict[str, object]:
        """What the metadata of the file tell of the graph."""
        params = {"max_level": shape.max_level, "m": shape.m, "ef_construction": shape.ef_construction, "prefetch_distance": _PREFETCH}
        return {"entry_point": self.entry, "params": params, "level_offsets": self.bounds}


def made_graph(quantizer: Quantizer, metric: str, columns: Columns, shape: GraphShape) -> MadeGraph:
    """The graph of the vectors of a partition that have these codes."""
    points, scale = _points(quantizer, metric, columns)
    count = len(points)
    heights = _heights(count, shape)
    above = np.concatenate([[0], np.cumsum(heights)])
    base, upper = _empty(count, 2 * shape.m), _empty(int(above[-1]), shape.m)
    how = OF_METRIC["l2" if metric == "cosine" else metric]
    entry = join_graph(how, points, heights, above, *base, *upper, max(shape.ef_construction, 1)) if count else 0
    bounds, parts = [0], []
    for level in range(max(shape.max_level, 1)):
        own = np.flatnonzero(heights >= level)
        ids, distances, counts = (a[own] if level == 0 else b[above[own] + level - 1] for a, b in zip(base, upper))
        there = np.arange(ids.shape[1]) < counts[:, None]
        parts.append((own.astype(np.uint32), counts, ids[there], distances[there] * np.float32(scale)))
        bounds.append(bounds[-1] + len(own))
    members, counts, neighbours, distances = (np.concatenate(columns) for columns in zip(*parts))
    # There are as many bounds as levels and one more; those of levels without vectors are equal.
    return MadeGraph(members, counts, neighbours, distances, bounds, int(entry))


def _empty(rows: int, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Room for the neighbours of vectors, their distances and numbers."""
    return np.zeros((rows, most), np.uint32), np.zeros((rows, most), np.float32), np.zeros(rows, np.int64)


def _heights(count: int, shape: GraphShape) -> np.ndarray:
    """The highest level of each vector: one of `m` reaches the next level."""
    uniform = 1 - np.random.default_rng(_SEED).random(count)
    heights: np.ndarray = np.minimum((-np.log(uniform) / np.log(shape.m)).astype(np.int64), max(shape.max_level, 1) - 1)
    return heights


def _points(quantizer: Quantizer, metric: str, columns: Columns) -> tuple[np.ndarray, float]:
    """What the codes mean, as vectors that the kernel compares, and what its distances are multiplied with."""
    if isinstance(quantizer, ScalarQuantizer):
        codes = columns["__sq_code"]
        return (codes, quantizer.step**2) if metric != "dot" else ((codes * quantizer.step + quantizer.low).astype(np.float32), 1)
    if isinstance(quantizer, ProductQuantizer):
        codes = columns["__pq_code"]
        if quantizer.codebook.shape[1] == 16:
            codes = np.stack([codes & 15, codes >> 4], axis=2).reshape(len(codes), -1)
        return quantizer.codebook[np.arange(codes.shape[1]), codes].reshape(len(codes), -1), 1
    vectors = columns["flat"]
    if metric in ("hamming", "dot") or not len(vectors):
        return (vectors if metric == "hamming" else vectors.astype(np.float32)), 1
    exact = vectors.astype(computed_in(vectors.dtype))
    return (exact - exact.mean(axis=0)).astype(np.float32), 1  # numbers far from zero do not lose digits
