"""The partitions of a vector index: the vector that each is around (its centroid), and its rows in the file of codes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from lance_spark._proto import index_pb2 as pb
from lance_spark.buffers.messages import parse_message
from lance_spark.errors import CorruptFileError
from lance_spark.index.vector.distances import add_distances_of_parts, computed_in, distances

_DTYPES: dict[int, np.dtype] = {
    pb.Tensor.FLOAT16: np.dtype("<f2"),
    pb.Tensor.FLOAT32: np.dtype("<f4"),
    pb.Tensor.FLOAT64: np.dtype("<f8"),
    pb.Tensor.UINT8: np.dtype("u1"),
}


@dataclass(frozen=True)
class Partitions:
    """The rows of each partition: from `starts` to `stops` (exclusive)."""

    starts: np.ndarray
    stops: np.ndarray

    def __len__(self) -> int:
        return len(self.starts)

    def rows(self, partition: int) -> range:
        """The rows of one partition."""
        return range(int(self.starts[partition]), int(self.stops[partition]))


@dataclass(frozen=True)
class Centroids:
    """The centroids, one in each row of `vectors`; queries are compared with them by `metric`."""

    vectors: np.ndarray
    metric: str

    @cached_property
    def _compared(self) -> np.ndarray:
        found = self.vectors.astype(computed_in(self.vectors.dtype))
        return np.ascontiguousarray(found.T[None]) if found.dtype == np.float32 else found

    def distances(self, queries: np.ndarray) -> np.ndarray:
        """The distances (float32) of queries to the centroids, a row for each query; under cosine, those of l2."""
        metric, compared = "l2" if self.metric == "cosine" else self.metric, self._compared
        queries = np.ascontiguousarray(queries.astype(compared.dtype))
        if compared.dtype != np.float32:
            return np.stack([distances(query, compared, metric) for query in queries])
        found = np.zeros((len(queries), 1, compared.shape[2]), np.float32)
        add_distances_of_parts(queries, compared, metric == "dot", found)
        return 1 - found[:, 0] if metric == "dot" else found[:, 0]


def partitions(data: bytes, rows: int, what: str) -> Partitions:
    """The partitions in an IVF message, of a file of so many rows. Raises CorruptFileError if a row is in two partitions, or in none."""
    message = parse_message(pb.Ivf, data, what)
    starts, lengths = np.array(message.offsets, np.uint64), np.array(message.lengths, np.uint64)
    if len(starts) != len(lengths) or (starts > rows).any() or (lengths > rows).any() or lengths.sum() > rows:
        raise CorruptFileError(f"{what}: {len(starts)} offsets and {len(lengths)} lengths do not divide {rows} rows into partitions")
    stops = starts + lengths
    order = np.argsort(starts[lengths > 0])
    begin, end = starts[lengths > 0][order], stops[lengths > 0][order]
    if len(end) and (end[-1] > rows or (begin[1:] < end[:-1]).any()):
        raise CorruptFileError(f"{what}: partitions overlap, or end after row {rows}")
    return Partitions(starts.astype(np.int64), stops.astype(np.int64))


def centroids(data: bytes, metric: str, dimensions: int, what: str) -> Centroids:
    """The centroids in an IVF message. Raises CorruptFileError if they do not have so many dimensions."""
    return centroids_of(tensor(parse_message(pb.Ivf, data, what).centroids_tensor, what), metric, dimensions, what)


def centroids_of(found: np.ndarray, metric: str, dimensions: int, what: str) -> Centroids:
    """The centroids in the rows of a matrix. Raises CorruptFileError if they do not have so many dimensions."""
    if found.ndim != 2 or found.shape[1] != dimensions or (metric == "hamming") != (found.dtype == np.uint8):
        raise CorruptFileError(f"{what}: expected centroids of {dimensions} dimensions, found {found.shape} of {found.dtype}")
    return Centroids(found, metric)


def tensor(message: pb.Tensor, what: str) -> np.ndarray:
    """The numbers of a tensor. Raises CorruptFileError if they are not as many as its shape says."""
    dtype, shape = _DTYPES.get(message.data_type), tuple(message.shape)
    if dtype is None or prod(shape) * dtype.itemsize != len(message.data):
        raise CorruptFileError(f"{what}: {len(message.data)} bytes of the type {message.data_type} are no tensor of the shape {shape}")
    return np.asarray(np.frombuffer(message.data, dtype).reshape(shape))
