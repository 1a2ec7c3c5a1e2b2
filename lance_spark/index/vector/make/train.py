"""Training: the centroids of the partitions and the quantizer, from a sample of vectors. They are stored as a segment without rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lance_spark._proto import index_pb2 as pb
from lance_spark.index.files import IndexFiles
from lance_spark.index.target import IndexTarget, Trained
from lance_spark.index.vector.ivf import tensor
from lance_spark.index.vector.make.encode import as_bits, assigned
from lance_spark.index.vector.make.kmeans import kmeans, shared
from lance_spark.index.vector.make.rabit import code_fields, storage_of
from lance_spark.index.vector.make.recipe import Recipe
from lance_spark.index.vector.make.segment import Model, model_of, write

_SEED = 42
"""The same rows give the same index."""

_TENSORS = {"float16": pb.Tensor.FLOAT16, "float32": pb.Tensor.FLOAT32, "float64": pb.Tensor.FLOAT64, "uint8": pb.Tensor.UINT8}


def train_model(sample: np.ndarray, rows: int, recipe: Recipe, target: IndexTarget, loss: float = 0.0) -> Trained:
    """Train an index of so many vectors with some of them, as `comparable` has them, in any order, and write a segment without rows.

    `loss` is the sum of the distances to the centroids that the recipe has, if it has any.
    """
    rng = np.random.default_rng(_SEED)
    sample = sample[rng.permutation(len(sample))]
    count = min(recipe.partitions(rows), len(sample))
    if recipe.centroids is not None:
        centroids = recipe.centroids.astype(sample.dtype)
    else:
        centroids, loss = _centroids(sample[: count * recipe.sample_rate], count, recipe, rng)
    storage, buffers = _quantizer(sample, centroids, recipe, rng)
    return _write(target, recipe, centroids.astype(sample.dtype), loss, storage, buffers)


def train_centroids(
    vectors: Callable[[int], np.ndarray], sizes: np.ndarray, own: Iterable[int], recipe: Recipe, rows: int, target: IndexTarget
) -> Trained | None:
    """Train those of the centroids of an index of so many rows that are for its parts `own`; None if there are none.

    `sizes` are the numbers of the vectors in a sample of all parts; the vectors are those of one. It writes a segment without rows.
    """
    found, loss, rng = list[np.ndarray](), 0.0, np.random.default_rng(_SEED)
    shares = shared(sizes, min(recipe.partitions(rows), int(sizes.sum())))
    for part in own:
        if shares[part]:
            sample = vectors(part)
            centroids, distance = _centroids(sample, int(shares[part]), recipe, rng)
            found.append(centroids.astype(sample.dtype))
            loss += distance
    if not found:
        return None
    centroids = np.concatenate(found)
    return _write(target, replace(recipe, kind="IVF_FLAT", graph=None), centroids, loss, {"dim": centroids.shape[1]}, [])


def centroids_in(segments: Iterable[IndexFiles]) -> tuple[np.ndarray, float]:
    """The centroids of segments, one after the other, and the sum of the distances to them in the sample."""
    models = [pb.Ivf.FromString(model_of(files).ivf) for files in segments]
    return np.concatenate([tensor(m.centroids_tensor, "a model") for m in models]), sum(m.loss for m in models)


def _write(
    target: IndexTarget, recipe: Recipe, centroids: np.ndarray, loss: float, storage: Mapping[str, object], buffers: Sequence[bytes]
) -> Trained:
    ivf = pb.Ivf(centroids_tensor=_tensor(centroids), loss=loss).SerializeToString(deterministic=True)
    schema = pa.schema([pa.field("_rowid", pa.uint64()), *_codes(recipe, centroids)])
    model = Model(recipe.kind, recipe.metric, schema, ivf, json.dumps(storage), tuple(buffers), recipe.graph)
    return write(target, model, (), recipe.details(centroids.shape[1]))


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


def _codes(recipe: Recipe, vectors: np.ndarray) -> list[pa.Field]:
    """The columns of codes."""
    dimensions = vectors.shape[1]
    match recipe.quantizer:
        case "FLAT":
            return [pa.field("flat", pa.list_(pa.from_numpy_dtype(vectors.dtype), dimensions))]
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
