"""Training: the centroids of the partitions and the quantizer, from a sample of vectors. They are stored as a segment without rows."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from lance_spark._proto import index_pb2 as pb
from lance_spark.index.target import IndexTarget, Trained
from lance_spark.index.vector.make.encode import as_bits, assigned
from lance_spark.index.vector.make.kmeans import kmeans
from lance_spark.index.vector.make.rabit import code_fields, storage_of
from lance_spark.index.vector.make.recipe import Recipe
from lance_spark.index.vector.make.segment import Model, write

_SEED = 42
"""The same rows give the same index."""

_TENSORS = {"float16": pb.Tensor.FLOAT16, "float32": pb.Tensor.FLOAT32, "float64": pb.Tensor.FLOAT64, "uint8": pb.Tensor.UINT8}


def sample_size(recipe: Recipe, rows: int) -> int:
    """The number of vectors to train with, of so many."""
    wanted = recipe.partitions(rows) * recipe.sample_rate
    codes = 1 << recipe.bits if recipe.quantizer in ("PQ", "SQ") else 0
    return min(rows, max(wanted, codes * recipe.sample_rate))


def train_model(sample: np.ndarray, rows: int, recipe: Recipe, target: IndexTarget) -> Trained:
    """Train an index of so many vectors with some of them, as `comparable` has them, in any order, and write a segment without rows."""
    rng = np.random.default_rng(_SEED)
    dtype, dimensions = sample.dtype, sample.shape[1]
    sample = sample[rng.permutation(len(sample))]
    count = min(recipe.partitions(rows), len(sample))
    if recipe.centroids is not None:
        centroids, loss = recipe.centroids.astype(dtype), 0.0
    else:
        centroids, loss = _centroids(sample[: count * recipe.sample_rate], count, recipe, rng)
    storage, buffers = _quantizer(sample, centroids, recipe, rng)
    ivf = pb.Ivf(centroids_tensor=_tensor(centroids.astype(dtype)), loss=loss)
    schema = pa.schema([pa.field("_rowid", pa.uint64()), *_codes(recipe, sample)])
    told = ivf.SerializeToString(deterministic=True)
    model = Model(recipe.kind, recipe.metric, schema, told, json.dumps(storage), tuple(buffers), recipe.graph)
    return write(target, model, (), recipe.details(dimensions))


def _centroids(sample: np.ndarray, count: int, recipe: Recipe, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    if recipe.metric == "hamming":
        bits, loss = kmeans(as_bits(sample), count, recipe.metric, recipe.max_iters, rng)
        return np.packbits(bits.astype(np.uint8), axis=1, bitorder="little"), loss
    return kmeans(sample.astype(np.float32), count, recipe.metric, recipe.max_iters, rng)


def _quantizer(
    sample: np.ndarray, centroids: np.ndarray, recipe: Recipe, rng: np.random.Generator
) -> tuple[Mapping[str, object], list[bytes]]:
    """The metadata of the file of codes, and its buffers after the first."""
    dimensions = sample.shape[1]
    if recipe.quantizer == "FLAT":
        return {"dim": dimensions}, []
    bits = recipe.bits
    if recipe.quantizer == "RQ":
        return storage_of(dimensions, bits, rng), []
    sample = sample[: recipe.sample_rate << bits]
    if recipe.quantizer == "SQ":
        bounds = {"start": float(sample.min()), "end": float(sample.max())}
        return {"dim": dimensions, "num_bits": bits, "bounds": bounds}, []
    codebook = recipe.codebook if recipe.codebook is not None else _codebook(sample, centroids, recipe, rng)
    parts = recipe.parts(dimensions)
    told = {"codebook_position": 2, "nbits": bits, "num_sub_vectors": parts, "dimension": dimensions}
    # The order of the numbers is that of parts, then codes; the shape says otherwise.
    tensor = _tensor(codebook.astype(sample.dtype).reshape(1 << bits, dimensions))
    return {**told, "codebook_tensor": [], "transposed": True}, [tensor.SerializeToString(deterministic=True)]


def _codes(recipe: Recipe, sample: np.ndarray) -> list[pa.Field]:
    """The columns of codes."""
    dimensions = sample.shape[1]
    match recipe.quantizer:
        case "FLAT":
            return [pa.field("flat", pa.list_(pa.from_numpy_dtype(sample.dtype), dimensions))]
        case "PQ":
            return [pa.field("__pq_code", pa.list_(pa.uint8(), recipe.parts(dimensions) * recipe.bits // 8))]
        case "RQ":
            return code_fields(dimensions, recipe.bits)
        case _:
            return [pa.field("__sq_code", pa.list_(pa.uint8(), dimensions))]


def _codebook(sample: np.ndarray, centroids: np.ndarray, recipe: Recipe, rng: np.random.Generator) -> np.ndarray:
    """The codewords of each part."""
    apart = sample.astype(np.float32) if sample.dtype == np.float16 else sample
    if recipe.metric != "dot":
        apart = apart - centroids[assigned(apart, centroids, recipe.metric)]
    parts = np.split(apart.astype(np.float32), recipe.parts(sample.shape[1]), axis=1)
    words = 1 << recipe.bits
    return np.stack([kmeans(np.ascontiguousarray(part), words, "l2", recipe.max_iters, rng)[0] for part in parts])


def _tensor(numbers: np.ndarray) -> pb.Tensor:
    return pb.Tensor(data_type=_TENSORS[numbers.dtype.name], shape=list(numbers.shape), data=np.ascontiguousarray(numbers).tobytes())
