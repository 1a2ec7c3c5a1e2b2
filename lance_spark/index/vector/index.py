"""One segment of a vector index: its partitions, the codes of their vectors, and the graph of each if it has any.

`index.idx` says what it is, and has the centroids and the graphs; `auxiliary.idx` has the rows, partition by partition, with their codes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError, MissingFileError, StorageError, UnsupportedFeatureError
from lance_spark.index.files import IndexFile, IndexFiles, unsigned
from lance_spark.index.vector.codes import Codes, GraphQuantizer, Quantizer
from lance_spark.index.vector.distances import METRICS, least, normalised
from lance_spark.index.vector.flat import Flat
from lance_spark.index.vector.hnsw import COLUMNS, NO_VECTOR, Graph, compared_one_by_one, graph
from lance_spark.index.vector.ivf import Centroids, Partitions, centroids, partitions
from lance_spark.index.vector.legacy import LegacyIndex
from lance_spark.index.vector.partition import Partition
from lance_spark.index.vector.pq import product_quantizer
from lance_spark.index.vector.rq import RaBitQuantizer, rabit_quantizer
from lance_spark.index.vector.rq_many import Kept, ManyQueries
from lance_spark.index.vector.sq import scalar_quantizer
from lance_spark.index.vector.vectors import ELEMENTS, vector_type

_QUANTIZERS: dict[str, Callable[[IndexFile, Mapping[str, Any], str, int], Quantizer]] = {
    "PQ": product_quantizer,
    "SQ": scalar_quantizer,
    "RQ": rabit_quantizer,
}

_BLOCK_BYTES = 8 << 20
"""The distances of centroids to queries that are computed at once take at most so many bytes."""


@dataclass(frozen=True)
class VectorIndex:
    """An open segment. `kind` is its type, such as IVF_HNSW_SQ; `read` reads a partition with the codes of a quantizer."""

    files: IndexFiles
    kind: str
    metric: str
    centroids: Centroids
    partitions: Partitions
    quantizer: Quantizer
    read: Callable[[int, Quantizer], Partition]

    @property
    def nbytes(self) -> int:
        """About the memory that it takes without its partitions."""
        return self.centroids.vectors.nbytes * 3 + (1 << 16)

    def prepared(self, queries: np.ndarray) -> np.ndarray:
        """Queries as they are compared: under cosine, scaled to length 1. They have numbers that the column could store, as in pylance."""
        column, _ = vector_type(self.files.indexed.type)
        stored = ELEMENTS[column.value_type] if column is not None else queries.dtype
        queries = normalised(queries) if self.metric == "cosine" else queries
        return queries.astype(stored) if stored.kind == "f" else queries

    def in_mode(self, mode: str) -> VectorIndex:
        """The index as a search with this `approx_mode` compares its codes. Only RQ has several ways."""
        quantizer = self.quantizer
        if mode == "normal" or not isinstance(quantizer, RaBitQuantizer):
            return self
        return self.files.cached(
            f"vectors, {mode}",
            lambda: replace(self, quantizer=quantizer.in_mode(mode)),
            lambda index: index.nbytes,
        )

    @property
    def filled(self) -> np.ndarray:
        """The numbers of the partitions that have rows."""
        return np.flatnonzero(self.partitions.stops > self.partitions.starts)

    def nearest_partitions(self, queries: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of at most so many partitions that have rows, and the distances to their centroids.

        Both have a row for each prepared query, with the nearest partitions first.
        """
        filled = self.filled
        numbers = np.empty((len(queries), min(count, len(filled))), np.int64)
        distances = np.empty(numbers.shape, np.float32)
        at_once = max(_BLOCK_BYTES // max(8 * len(self.partitions), 1), 1)
        for start in range(0, len(queries), at_once):
            some = slice(start, start + at_once)
            to_filled = self.centroids.distances(queries[some])[:, filled]
            nearest = least(to_filled, numbers.shape[1])
            numbers[some] = filled[nearest]
            distances[some] = np.take_along_axis(to_filled, nearest, axis=1)
        return numbers, distances

    def partition(self, number: int) -> Partition:
        """A partition, which stays in memory. Raises CorruptFileError."""
        quantizer = self.quantizer
        key = f"partition {number}, {', '.join(quantizer.columns)}"
        return self.files.cached(key, lambda: self.read(number, quantizer), lambda p: p.nbytes)

    def forms(self, queries: np.ndarray) -> np.ndarray:
        """Prepared queries in the form in which `distances` takes them: a row for each."""
        with np.errstate(all="ignore"):  # what is damaged may have any values
            return self.quantizer.forms(queries)

    def distances(self, forms: np.ndarray, number: int, codes: Codes) -> np.ndarray:
        """About the distances (float32) of rows of a partition, see `codes.Quantizer`; NaN for codes of no vector."""
        with np.errstate(all="ignore"):  # what is damaged may have any values
            return np.ascontiguousarray(self.quantizer.distances(forms, self.centroids.vectors[number], codes))

    def many(self, forms: np.ndarray) -> ManyQueries | None:
        """Many queries as `add_nearest` takes them; None for codes that are compared by `distances` alone."""
        quantizer = self.quantizer
        if not isinstance(quantizer, RaBitQuantizer):
            return None
        with np.errstate(all="ignore"):  # what is damaged may have any values
            return quantizer.many(forms, self.centroids.vectors.shape[1])

    def apart(self, queries: np.ndarray, partitions: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """The distances of prepared queries, by their `numbers`, to the centroids of partitions."""
        found: np.ndarray = self.centroids.distances(queries)[numbers, partitions]
        return found

    def add_nearest(
        self,
        many: ManyQueries,
        forms: np.ndarray,
        number: int,
        codes: Codes,
        rows: np.ndarray,
        which: np.ndarray,
        queries: np.ndarray,
        kept: Kept,
    ) -> None:
        """Add rows of a partition to what is kept of queries; see `rq.RaBitQuantizer.add_nearest`."""
        with np.errstate(all="ignore"):  # what is damaged may have any values
            quantizer = cast(RaBitQuantizer, self.quantizer)
            quantizer.add_nearest(many, forms, self.centroids.vectors[number], codes, rows, which, queries, kept)

    def nearest(
        self,
        query: np.ndarray,
        number: int,
        graph: Graph,
        partition: Partition,
        keep: int | None,
        allowed: np.ndarray | None,
        left_out: int = NO_VECTOR,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The places in a partition of the vectors that a search of its graph finds, and their distances; see `Graph.nearest`.

        Without `keep`, all vectors that are `allowed`, which are compared without the graph.
        """
        with np.errstate(all="ignore"):  # what is damaged may have any values
            compared = cast(GraphQuantizer, self.quantizer).compared(query, self.centroids.vectors[number], partition.codes)
            return compared_one_by_one(compared, allowed) if keep is None else graph.nearest(compared, keep, allowed, left_out)


@dataclass(frozen=True)
class _Stored:
    """The partitions of a segment in its files."""

    files: IndexFiles
    partitions: Partitions
    graphs: Partitions | None
    graph_levels: Sequence[Mapping[str, Any]]

    def partition(self, number: int, quantizer: Quantizer) -> Partition:
        """A partition. Raises CorruptFileError."""
        file = self.files.open("auxiliary.idx")
        batch = file.read(("_rowid", *quantizer.columns), self.partitions.rows(number))
        rows = unsigned(batch.column(0), file.path).astype(np.uint64)
        codes = quantizer.codes(pa.RecordBatch.from_arrays(batch.columns[1:], names=list(quantizer.columns)), file.path)
        return Partition(rows, codes, None if self.graphs is None else self._graph(number, len(rows), self.graphs))

    def _graph(self, number: int, vectors: int, rows: Partitions) -> Graph:
        file, levels = self.files.open("index.idx"), self.graph_levels[number]
        bounds, entry = levels.get("level_offsets"), levels.get("entry_point")
        if not isinstance(bounds, list) or not all(isinstance(b, int) for b in bounds) or not isinstance(entry, int):
            raise CorruptFileError(f"{file.path}: expected the levels of a graph, found {str(levels)[:200]}")
        return graph(file.read(COLUMNS, rows.rows(number)), bounds, entry, vectors, file.path)


def open_index(files: IndexFiles) -> VectorIndex:
    """Open a segment, which stays in memory. Raises CorruptFileError, UnsupportedFeatureError or StorageError."""
    return files.cached("vectors", lambda: _opened(files), lambda index: index.nbytes)


def metric_told(files: IndexFiles) -> str | None:
    """The metric that the files of a segment tell, of which others may be lost or unknown; None if they do not."""
    try:
        return open_index(files).metric
    except (CorruptFileError, UnsupportedFeatureError, StorageError):
        pass
    try:
        return _kind(files.open("index.idx"))[1]
    except (CorruptFileError, UnsupportedFeatureError, StorageError):
        return None


def _opened(files: IndexFiles) -> VectorIndex:
    column, _ = vector_type(files.indexed.type)
    if column is None:
        raise UnsupportedFeatureError(f"{files.folder}: an index of a column of {files.indexed.type}")
    try:
        codes = files.open("auxiliary.idx")
    except MissingFileError as missing:
        return _opened_legacy(files, column, missing)
    graphs = files.open("index.idx")
    kind, metric = _kind(graphs)
    dimensions, quantizer_name = column.list_size, kind.rpartition("_")[2]
    metadata = _first(_json(codes, "storage_metadata"), codes.path)
    if quantizer_name == "FLAT":
        _check_vectors(codes, column)
        quantizer: Quantizer = Flat(metric)
    elif (make := _QUANTIZERS.get(quantizer_name)) is not None:
        quantizer = make(codes, metadata, metric, dimensions)
    else:
        raise UnsupportedFeatureError(f"{graphs.path}: indexes of the kind {kind}")
    ivf = graphs.buffer("lance:ivf")
    around = centroids(ivf, metric, dimensions, graphs.path)
    own = partitions(codes.buffer("lance:ivf"), codes.num_rows, codes.path)
    nodes, levels = None, []
    if "_HNSW_" in kind:
        if not hasattr(quantizer, "compared"):
            raise UnsupportedFeatureError(f"{graphs.path}: indexes of the kind {kind}")
        nodes = partitions(ivf, graphs.num_rows, graphs.path)
        levels = [_object(text, graphs.path) if text else {} for text in _json(graphs, "lance:hnsw")]
    if len(own) != len(around.vectors) or (nodes is not None and not len(nodes) == len(levels) == len(own)):
        raise CorruptFileError(f"{codes.path}: {len(own)} partitions, but {len(around.vectors)} centroids")
    return VectorIndex(files, kind, metric, around, own, quantizer, _Stored(files, own, nodes, levels).partition)


def _opened_legacy(files: IndexFiles, column: pa.FixedSizeListType, missing: MissingFileError) -> VectorIndex:
    """A segment that has no file of codes: one of the old format."""
    try:
        old = LegacyIndex(files, column.list_size)
    except UnsupportedFeatureError as e:
        raise missing from e
    return VectorIndex(
        files,
        "IVF_PQ",
        old.metric,
        old.centroids,
        old.partitions,
        old.quantizer,
        lambda number, _quantizer: old.partition(number),
    )


def _kind(file: IndexFile) -> tuple[str, str]:
    """The kind and the metric of an index."""
    told = _object(file.metadata.get("lance:index", ""), file.path)
    kind, metric = str(told.get("type")), str(told.get("distance_type")).lower()
    if metric not in METRICS or not kind.startswith("IVF_"):
        raise UnsupportedFeatureError(f"{file.path}: an index of the kind {kind[:100]!r} with the metric {metric[:100]!r}")
    return kind, metric


def _check_vectors(file: IndexFile, column: pa.DataType) -> None:
    """Raise CorruptFileError unless the vectors of a FLAT index are those of the column."""
    found = next((f.type for f in file.schema if f.name == "flat"), None)
    if (
        found is None
        or not pa.types.is_fixed_size_list(found)
        or (found.list_size, found.value_type) != (column.list_size, column.value_type)
    ):
        raise CorruptFileError(f"{file.path}: expected vectors of {column}, found {found}")


def _json(file: IndexFile, key: str) -> list[Any]:
    """A list of JSON in the metadata of a file."""
    try:
        found = json.loads(file.metadata.get(key, ""))
    except (ValueError, RecursionError) as e:
        raise CorruptFileError(f"{file.path}: the metadata {key!r} is not JSON: {e}") from e
    if not isinstance(found, list):
        raise CorruptFileError(f"{file.path}: the metadata {key!r} is not a list")
    return found


def _first(texts: Sequence[Any], what: str) -> Mapping[str, Any]:
    return _object(texts[0] if texts else "", what)


def _object(text: object, what: str) -> Mapping[str, Any]:
    """An object in JSON."""
    try:
        found = json.loads(str(text))
    except (ValueError, RecursionError) as e:
        raise CorruptFileError(f"{what}: expected an object in JSON, found {str(text)[:100]!r}") from e
    if not isinstance(found, dict):
        raise CorruptFileError(f"{what}: expected an object in JSON, found {str(text)[:100]!r}")
    return found
