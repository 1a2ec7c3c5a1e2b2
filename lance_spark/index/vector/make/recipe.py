"""What a user asks of a new vector index: the kind, the metric and the parameters, whose names and defaults are pylance's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, cast

import numpy as np
import pyarrow as pa

from lance_spark._proto import index_pb2 as pb
from lance_spark.display.words import nearest as did_you_mean
from lance_spark.errors import InvalidOptionError
from lance_spark.index.vector.distances import METRICS
from lance_spark.index.vector.make.kmeans import MAX_ITERATIONS, SAMPLE_RATE
from lance_spark.index.vector.rq import MOST_DIMENSIONS
from lance_spark.index.vector.vectors import matrix, vector_type

TARGETS = {"FLAT": 4096, "PQ": 8192, "SQ": 8192, "RQ": 4096}
"""Without a number of partitions, there is one for so many rows; as in pylance."""

_GRAPH_TARGET = 1 << 20
"""The same with graphs."""

KINDS = ("IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_HNSW_FLAT", "IVF_HNSW_PQ", "IVF_HNSW_SQ", "IVF_RQ")
"""The kinds of vector indexes."""

_SYNONYMS = {"euclidean": "l2"}
_COMMON = ("metric", "num_partitions", "target_partition_size", "ivf_centroids", "sample_rate", "max_iters")
_MOST = {
    "num_partitions": 1 << 20,
    "max_iters": 1 << 16,
    "sample_rate": 1 << 20,
    "target_partition_size": 1 << 40,
    "m": 1 << 10,
    "ef_construction": 1 << 16,
    "max_level": 1 << 6,
}
_BITS = {"PQ": 8, "SQ": 8, "RQ": 5}
_RQ_BITS = 9
_RQ_DIMENSIONS = 8
"""RQ takes vectors of multiples of so many dimensions."""

_OF_GRAPH = ("m", "ef_construction", "max_level")


@dataclass(frozen=True)
class GraphShape:
    """A vector of a graph has at most `m` neighbours, and twice as many in the lowest of at most `max_level` levels.

    They are chosen of `ef_construction` near ones. Names and defaults are pylance's.
    """

    m: int = 20
    ef_construction: int = 150
    max_level: int = 7


@dataclass(frozen=True)
class Recipe:
    """A kind such as IVF_PQ with its parameters; None: as the rows and the column say. `centroids` and `codebook` are given ones."""

    kind: str
    metric: str
    num_partitions: int | None = None
    target_partition_size: int | None = None
    sample_rate: int = SAMPLE_RATE
    max_iters: int = MAX_ITERATIONS
    num_sub_vectors: int | None = None
    num_bits: int | None = None
    centroids: np.ndarray | None = None
    codebook: np.ndarray | None = None
    graph: GraphShape | None = None

    @property
    def quantizer(self) -> str:
        """How vectors are encoded: FLAT, PQ, SQ or RQ."""
        return self.kind.rpartition("_")[2]

    @property
    def bits(self) -> int:
        """The bits of a code: of a part of a vector under PQ, of a number under SQ and RQ."""
        return self.num_bits or _BITS.get(self.quantizer, 8)

    @property
    def least_rows(self) -> int:
        """So many vectors must be there to train the index."""
        return 1 << self.bits if self.quantizer == "PQ" and self.codebook is None else 1

    def partitions(self, rows: int) -> int:
        """The number of partitions of an index of so many vectors."""
        if self.centroids is not None:
            return len(self.centroids)
        target = self.target_partition_size or (_GRAPH_TARGET if self.graph else TARGETS[self.quantizer])
        return max(min(self.num_partitions or rows // target, rows // self.least_rows), 1)

    def sample_size(self, rows: int) -> int:
        """The number of vectors to train with, of so many; one at least, which tells their type."""
        wanted = self.partitions(rows) * self.sample_rate if self.centroids is None else 1
        codes = 1 << self.bits if self.quantizer in ("PQ", "SQ") else 0
        return min(rows, max(wanted, codes * self.sample_rate))

    def parts(self, dimensions: int) -> int:
        """The number of the parts of a vector under PQ: if it is not given, one for 16 dimensions, or for 8, or for all."""
        return self.num_sub_vectors or next((dimensions // size for size in (16, 8) if dimensions % size == 0), 1)

    def details(self, dimensions: int) -> bytes:
        """The message that a manifest stores. `recipe_in` reads it."""
        message = pb.VectorIndexDetails(metric=self.metric.upper(), target_partition_size=self.target_partition_size or 0)
        if self.quantizer == "PQ":
            message.pq.num_bits, message.pq.num_sub_vectors = self.bits, self.parts(dimensions)
        elif self.quantizer == "SQ":
            message.sq.num_bits = self.bits
        elif self.quantizer == "RQ":
            message.rq.num_bits = self.bits
        else:
            message.flat.SetInParent()
        if self.graph is not None:
            graph = self.graph
            message.hnsw.max_connections, message.hnsw.construction_ef, message.hnsw.max_level = (
                graph.m,
                graph.ef_construction,
                graph.max_level,
            )
        for quantizer in ("ivf", *(("pq",) if self.quantizer == "PQ" else ())):
            message.hints[f"lance.{quantizer}.sample_rate"] = str(self.sample_rate)
            message.hints[f"lance.{quantizer}.max_iters"] = str(self.max_iters)
        return message.SerializeToString(deterministic=True)


def kind_in(details: bytes) -> str | None:
    """The kind that the details tell; None for those of old writers, which tell nothing."""
    message = pb.VectorIndexDetails.FromString(details)
    found = [name for name in ("pq", "sq", "rq", "flat") if message.HasField(name)]
    return "_".join(["IVF", *(["HNSW"] if message.HasField("hnsw") else []), found[0].upper()]) if found else None


def metric_in(details: bytes) -> str:
    """The metric that the details tell."""
    return METRICS[pb.VectorIndexDetails.FromString(details).metric % len(METRICS)]


def recipe_in(details: bytes, kind: str, metric: str) -> Recipe:
    """How an index of this kind and metric is made again: the number of its partitions follows from the rows."""
    message = pb.VectorIndexDetails.FromString(details)

    def hint(name: str, default: int) -> int:
        text = message.hints.get(f"lance.ivf.{name}", "")
        return int(text) if text.isascii() and text.isdigit() and 0 < int(text[:9]) < _MOST[name] else default

    return Recipe(
        kind,
        metric,
        target_partition_size=message.target_partition_size or None,
        sample_rate=hint("sample_rate", SAMPLE_RATE),
        max_iters=hint("max_iters", MAX_ITERATIONS),
        num_sub_vectors=message.pq.num_sub_vectors or None,
        num_bits=message.pq.num_bits or message.rq.num_bits or None,
        graph=graph_in(details) if "HNSW" in kind else None,
    )


def graph_in(details: bytes) -> GraphShape:
    """The shape of the graphs that the details tell; what they do not tell is pylance's default."""
    told = pb.VectorIndexDetails.FromString(details).hnsw
    default = GraphShape()
    return GraphShape(
        told.max_connections or default.m, told.construction_ef or default.ef_construction, told.max_level or default.max_level
    )


def recipe_of(kind: str, column: str, t: pa.DataType, given: Mapping[str, object]) -> Recipe:
    """Check the parameters for a column of type `t`. Raises InvalidOptionError."""
    kind = kind.upper()
    if kind not in KINDS:
        raise InvalidOptionError(
            f"unknown kind of index {kind!r}{did_you_mean(kind, KINDS)}; the kinds of vector indexes are: {', '.join(KINDS)}"
        )
    vectors, several = vector_type(t)
    if vectors is None:
        raise InvalidOptionError(
            f"an index of the kind {kind} cannot be built for column {column!r} of type {t}; it takes fixed-size lists of numbers"
        )
    given = {key: value for key, value in given.items() if value is not None}
    of_pq = ("num_sub_vectors", "num_bits", "pq_codebook") if kind.endswith("_PQ") else ()
    own = (*of_pq, *(("num_bits",) if kind.endswith("_RQ") else ()), *(_OF_GRAPH if "HNSW" in kind else ()))
    if unknown := sorted(given.keys() - {*_COMMON, *own}):
        expected = (*_COMMON, *own)
        hint = f"{did_you_mean(unknown[0], expected)}; its parameters are: {', '.join(expected)}"
        raise InvalidOptionError(f"an index of the kind {kind} has no parameter {unknown[0]!r}{hint}")
    element, dimensions = vectors.value_type, vectors.list_size
    metric = _metric(kind, given.get("metric"), column, element)
    if several and metric != "cosine":
        raise InvalidOptionError(f"an index of column {column!r} of lists of vectors has the metric cosine, not {metric}")
    numbers = {key: _number(key, given.get(key)) for key in ("num_partitions", "target_partition_size", "sample_rate", "max_iters")}
    centroids = None if "ivf_centroids" not in given else _matrix("ivf_centroids", given["ivf_centroids"], element, dimensions)
    wanted = numbers["num_partitions"]
    if centroids is not None and wanted not in (None, len(centroids)):
        raise InvalidOptionError(f"ivf_centroids has {len(centroids)} vectors, but num_partitions is {wanted}")
    bits, parts = _of_pq(given, dimensions) if of_pq else (None, None)
    if kind.endswith("_RQ"):
        bits = _of_rq(given, column, dimensions)
    recipe = Recipe(
        kind,
        metric,
        wanted,
        numbers["target_partition_size"],
        numbers["sample_rate"] or SAMPLE_RATE,
        numbers["max_iters"] or MAX_ITERATIONS,
        parts,
        bits,
        centroids,
        graph=_graph(given) if "HNSW" in kind else None,
    )
    return recipe if "pq_codebook" not in given else _with_codebook(recipe, given["pq_codebook"], element, dimensions)


def _metric(kind: str, given: object, column: str, element: pa.DataType) -> str:
    metric = str(given if given is not None else "l2").lower()
    metric = _SYNONYMS.get(metric, metric)
    if metric not in METRICS:
        raise InvalidOptionError(f"unknown metric {given!r}; expected one of: {', '.join(METRICS)}")
    fits = kind.endswith("_FLAT") if metric == "hamming" else pa.types.is_floating(element)
    if not fits or (metric == "hamming") != (element == pa.uint8()):
        raise InvalidOptionError(
            f"an index of the kind {kind} with the metric {metric} cannot be built for column {column!r} of vectors of {element}: "
            "l2, cosine and dot are for floats, hamming is for uint8 and FLAT"
        )
    return metric


def _graph(given: Mapping[str, object]) -> GraphShape:
    numbers = {key: _number(key, given[key], 2 if key == "m" else 1) for key in _OF_GRAPH if key in given}
    return GraphShape(**{key: number for key, number in numbers.items() if number is not None})


def _of_rq(given: Mapping[str, object], column: str, dimensions: int) -> int | None:
    """The bits."""
    if dimensions % _RQ_DIMENSIONS or dimensions > MOST_DIMENSIONS:
        raise InvalidOptionError(
            f"an index of the kind IVF_RQ takes vectors of a multiple of {_RQ_DIMENSIONS} dimensions, up to {MOST_DIMENSIONS}; "
            f"those of column {column!r} have {dimensions}"
        )
    bits = _number("num_bits", given.get("num_bits"))
    if bits is not None and bits > _RQ_BITS:
        raise InvalidOptionError(f"num_bits must be an integer from 1 to {_RQ_BITS}, not {bits}")
    return bits


def _number(key: str, value: object, least: int = 1) -> int | None:
    most = _MOST.get(key, 1 << 31)
    if value is None:
        return None
    if not isinstance(value, Integral) or isinstance(value, bool) or not least <= int(value) <= most:
        raise InvalidOptionError(f"{key} must be an integer from {least} to {most}, not {value!r}")
    return int(value)


def _of_pq(given: Mapping[str, object], dimensions: int) -> tuple[int, int | None]:
    """The bits and the number of parts."""
    bits, parts = _number("num_bits", given.get("num_bits")) or _BITS["PQ"], _number("num_sub_vectors", given.get("num_sub_vectors"))
    if bits not in (4, 8):
        raise InvalidOptionError(f"num_bits must be 4 or 8, not {bits}")
    if parts is not None and dimensions % parts:
        raise InvalidOptionError(f"num_sub_vectors must divide the {dimensions} dimensions of the vectors, but is {parts}")
    if bits == 4 and (parts or Recipe("IVF_PQ", "l2").parts(dimensions)) % 2:
        raise InvalidOptionError(f"num_sub_vectors must be even with 4 bits, but is {parts or 'odd by default'}")
    return bits, parts


def _with_codebook(recipe: Recipe, given: object, element: pa.DataType, dimensions: int) -> Recipe:
    parts, codes = recipe.parts(dimensions), 1 << recipe.bits
    shape = (parts, codes, dimensions // parts)
    found = given
    if isinstance(given, pa.Array | pa.ChunkedArray):
        found = _matrix("pq_codebook", given, element, dimensions // parts).reshape(-1)
    found = np.asarray(cast(Any, found))
    if found.size != parts * codes * shape[2] or found.ndim not in (1, 3) or (found.ndim == 3 and found.shape != shape):
        raise InvalidOptionError(f"pq_codebook must have the shape {shape} of parts, codes and dimensions, not {found.shape}")
    return Recipe(**{**recipe.__dict__, "codebook": _finite("pq_codebook", found.reshape(shape), element)})


def _matrix(key: str, given: object, element: pa.DataType, dimensions: int) -> np.ndarray:
    """Vectors from a matrix, or from an array of Arrow."""
    if isinstance(given, pa.ChunkedArray):
        given = given.combine_chunks()
    if isinstance(given, pa.FixedShapeTensorArray):
        given = given.to_numpy_ndarray()
    if isinstance(given, pa.FixedSizeListArray):
        values, valid = matrix(given)
        given = values if valid.all() else np.empty(0)
    try:
        found = np.asarray(cast(Any, given))
    except (ValueError, TypeError) as e:
        raise InvalidOptionError(f"{key} must be a matrix of numbers: {e}") from e
    if found.ndim != 2 or found.shape[1] != dimensions or not len(found):
        raise InvalidOptionError(f"{key} must be vectors of {dimensions} dimensions without nulls, found the shape {found.shape}")
    if element == pa.uint8() and found.dtype != np.uint8:
        raise InvalidOptionError(f"{key} must be vectors of uint8, not of {found.dtype}")
    return found if element == pa.uint8() else _finite(key, found, element)


def _finite(key: str, found: np.ndarray, element: pa.DataType) -> np.ndarray:
    """The numbers, which the column could store: a larger one would become infinity."""
    with np.errstate(over="ignore"):
        finite = found.dtype.kind in "fiu" and bool(np.isfinite(found.astype(element.to_pandas_dtype())).all())
    if not finite:
        raise InvalidOptionError(f"{key} must be finite numbers of {element}, found {found.dtype}")
    return found.astype(np.float64 if found.dtype == np.float64 else np.float32)
