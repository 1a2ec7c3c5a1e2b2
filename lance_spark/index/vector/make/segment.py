"""Segments of vector indexes: `train` writes one of the rows that it is given, `rewrite` one of the rows of others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from lance_spark._proto import index_pb2 as pb
from lance_spark.buffers.messages import parse_message
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.index.files import IndexFiles, unsigned
from lance_spark.index.moves import Translation
from lance_spark.index.target import IndexFileWriter, IndexTarget, Trained
from lance_spark.index.vector.codes import Quantizer, byte_rows, numbers
from lance_spark.index.vector.index import VectorIndex, open_index
from lance_spark.index.vector.make.encode import Columns, assigned, check_encodes, comparable, encoded, stored, unstored
from lance_spark.index.vector.make.gather import Gathered
from lance_spark.index.vector.make.graph import SCHEMA as _GRAPHS
from lance_spark.index.vector.make.graph import made_graph
from lance_spark.index.vector.make.recipe import GraphShape, graph_in
from lance_spark.index.vector.vectors import each_vector, matrix

MODEL, GRAPHS = "model", "graphs"
"""The parameters of `train`: the files of a segment whose centroids and quantizer the new one has, too; and whether it has graphs, if the
model has a shape of them.
"""

VERSIONS = {"IVF_RQ": 2}
"""The index_version of kinds; that of all others is 1."""

_BATCH_ROWS = 1 << 16
_PLACES = ("codebook_position", "rotate_mat_position")
"""The keys of the metadata of codes that have the number of a buffer."""

_NO_GRAPHS = pa.schema([pa.field("__flat_marker", pa.uint64(), nullable=False)])


@dataclass(frozen=True)
class Model:
    """What segments of one index have in common: the columns of the file of codes, the Ivf message with the centroids, the
    metadata of the codes, further buffers, and the shape of graphs if there are any.
    """

    kind: str
    metric: str
    schema: pa.Schema
    ivf: bytes
    storage: str
    buffers: tuple[bytes, ...]
    graph: GraphShape | None = field(default=None, compare=False)


def model_of(files: IndexFiles) -> Model:
    """The model of a segment. Raises CorruptFileError or UnsupportedFeatureError."""
    index, graphs, codes = open_index(files), files.open("index.idx"), files.open("auxiliary.idx")
    check_encodes(index.quantizer, codes.path)
    message = parse_message(pb.Ivf, graphs.buffer("lance:ivf"), graphs.path)
    ivf = pb.Ivf(centroids_tensor=message.centroids_tensor, loss=message.loss).SerializeToString(deterministic=True)
    storage = json.loads(json.loads(codes.metadata["storage_metadata"])[0])
    place = next((key for key in _PLACES if storage.get(key) is not None and not storage.get("codebook_tensor")), None)
    buffers = () if place is None else (codes.reader.global_buffer(storage[place]),)
    if place is not None:
        storage[place] = 2
    shape = graph_in(files.details) if "HNSW" in index.kind else None
    return Model(index.kind, index.metric, codes.schema.remove_metadata(), ivf, json.dumps(storage), buffers, shape)


def train(rows: Iterable[pa.RecordBatch], value_type: pa.DataType, target: IndexTarget, parameters: Mapping[str, object]) -> Trained:
    """Write a segment of the rows, in any order, with the model of another."""
    files = parameters[MODEL]
    assert isinstance(files, IndexFiles)
    index, model = open_index(files), model_of(files)
    gathered = Gathered(len(index.partitions))
    for batch in rows:
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            _add(index, batch.slice(start, _BATCH_ROWS), gathered)
    return write(target, model, gathered.partitions(), files.details, index.quantizer, bool(parameters.get(GRAPHS, True)))


def _add(index: VectorIndex, batch: pa.RecordBatch, gathered: Gathered) -> None:
    array, row = each_vector(batch.column("value"))
    vectors, valid = matrix(array)
    vectors, usable = comparable(vectors, index.metric)
    usable &= valid
    numbers = batch.column("row").to_numpy().astype(np.uint64, copy=False)[row]
    if not usable.all():
        vectors, numbers = vectors[usable], numbers[usable]
    members = assigned(vectors, index.centroids.vectors, index.metric)
    gathered.add(members, numbers, encoded(index.quantizer, vectors, index.centroids.vectors[members]))


def rewrite(sources: Sequence[tuple[IndexFiles, Translation]], target: IndexTarget) -> Trained:
    """Write one segment with the rows of all sources that still exist.

    Raises UnsupportedFeatureError if they do not have the same centroids and quantizer.
    """
    first = sources[0][0]
    model = model_of(first)
    for files, _ in sources[1:]:
        if replace(model_of(files), ivf=b"") != replace(model, ivf=b"") or not _same_centroids(files, first):
            raise UnsupportedFeatureError(f"{files.folder}: the index was trained apart from {first.folder}")
    return write(target, model, _moved(sources), first.details, open_index(first).quantizer)


def _same_centroids(one: IndexFiles, other: IndexFiles) -> bool:
    vectors = [open_index(files).centroids.vectors for files in (one, other)]
    return vectors[0].dtype == vectors[1].dtype and np.array_equal(vectors[0], vectors[1])


def _moved(sources: Sequence[tuple[IndexFiles, Translation]]) -> Iterator[tuple[np.ndarray, Columns]]:
    """The rows of each partition, by their new numbers, with their codes."""
    opened = [(open_index(files), translation) for files, translation in sources]
    for number in range(len(opened[0][0].partitions)):
        parts = [_part(index, number, translation) for index, translation in opened]
        names = parts[0][1]
        yield np.concatenate([rows for rows, _ in parts]), {n: np.concatenate([columns[n] for _, columns in parts]) for n in names}


def _part(index: VectorIndex, number: int, translation: Translation) -> tuple[np.ndarray, Columns]:
    rows, columns = rows_of_partition(index, number)
    rows, exist = translation.numbers(rows)
    return rows[exist], {name: values[exist] for name, values in columns.items()}


def rows_of_partition(index: VectorIndex, number: int) -> tuple[np.ndarray, Columns]:
    """The rows of a partition as the segment names them, and their codes. Raises CorruptFileError."""
    file = index.files.open("auxiliary.idx")
    names = [f.name for f in file.schema if f.name != "_rowid"]
    batch = file.read(("_rowid", *names), index.partitions.rows(number))
    rows = unsigned(batch.column(0), file.path).astype(np.uint64)
    columns = {name: _stored(batch.column(i), file.path) for i, name in enumerate(names, 1)}
    return rows, unstored(index.quantizer, columns)


def _stored(array: pa.Array, what: str) -> np.ndarray:
    """The values of a column of codes or factors."""
    return byte_rows(array, what) if pa.types.is_fixed_size_list(array.type) else numbers(array, np.float32, what)


def write(
    target: IndexTarget,
    model: Model,
    partitions: Iterable[tuple[np.ndarray, Columns]],
    details: bytes,
    quantizer: Quantizer | None = None,
    with_graphs: bool = True,
) -> Trained:
    """Write the files of a segment with the rows of these partitions, in order; none without any."""
    ivf = pb.Ivf.FromString(model.ivf)
    count = ivf.centroids_tensor.shape[0]
    lengths: list[int] = []
    with target.create("index.idx", _NO_GRAPHS if model.graph is None else _GRAPHS) as graphs:
        nodes, told = [0] * count, [""] * count
        with target.create("auxiliary.idx", model.schema) as out:
            for rows, columns in partitions:
                if model.graph is not None and with_graphs and quantizer is not None and len(rows):
                    graph = made_graph(quantizer, model.metric, columns, model.graph)
                    graphs.put(*graph.columns())
                    nodes[len(lengths)], told[len(lengths)] = len(graph.ids), json.dumps(graph.told(model.graph), separators=(",", ":"))
                lengths.append(len(rows))
                _put(out, rows, columns if quantizer is None else stored(quantizer, columns))
            lengths += [0] * (count - len(lengths))
            out.attach("lance:ivf", pb.Ivf(offsets=_starts(lengths), lengths=lengths).SerializeToString(deterministic=True))
            out.buffers.extend(model.buffers)
            out.metadata |= {"distance_type": model.metric, "storage_metadata": json.dumps([model.storage])}
        ivf.offsets.extend(_starts(nodes))
        ivf.lengths.extend(nodes)
        graphs.attach("lance:ivf", ivf.SerializeToString(deterministic=True))
        kind = json.dumps({"type": model.kind, "distance_type": model.metric}, separators=(",", ":"))
        graphs.metadata |= {"lance:index": kind, "lance:flat" if model.graph is None else "lance:hnsw": json.dumps(told)}
    return target.trained(details, VERSIONS.get(model.kind, 1))


def _starts(lengths: Sequence[int]) -> list[int]:
    return [0, *np.cumsum(lengths[:-1]).tolist()]


def _put(out: IndexFileWriter, rows: np.ndarray, columns: Columns) -> None:
    if len(rows):
        arrays = [pa.array(rows)]
        for field in list(out.schema)[1:]:
            values = pa.array(np.ascontiguousarray(columns[field.name]).reshape(-1))
            is_list = pa.types.is_fixed_size_list(field.type)
            arrays.append(pa.FixedSizeListArray.from_arrays(values, type=field.type) if is_list else values)
        out.put(*arrays)
