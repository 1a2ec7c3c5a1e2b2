"""The old format of IVF_PQ, up to pylance 0.24: one file, `index.idx`, which is no Lance file.

The partitions are one after another: the codes of the vectors, then the row numbers (u64). At the end are a message with the centroids, the
position and length of each partition and the codewords, after its length (u32), and the position of that (u64), the version 0.1 and "LANC".
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

from lance_spark._proto import index_pb2 as pb
from lance_spark.buffers.byte_ranges import ByteRange
from lance_spark.buffers.messages import parse_message
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.index.files import IndexFiles
from lance_spark.index.vector.ivf import Centroids, Partitions, centroids_of, tensor
from lance_spark.index.vector.partition import Partition
from lance_spark.index.vector.pq import ProductQuantizer, product_quantizer_of

FILE = "index.idx"
_FOOTER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")
_VERSIONS = ((0, 0), (0, 1))
_METRICS = {
    pb.VectorIndex.L2: "l2",
    pb.VectorIndex.COSINE: "cosine",
    pb.VectorIndex.DOT: "dot",
}
_ROW_BYTES = 8


class LegacyIndex:
    """The message at the end of the file. Raises UnsupportedFeatureError unless the file has an IVF_PQ index of the old format."""

    def __init__(self, files: IndexFiles, dimensions: int) -> None:
        self.path, self._store = f"{files.folder}/{FILE}", files.store
        message = self._message()
        stages = [stage.WhichOneof("stage") for stage in message.stages]
        if stages != ["ivf", "pq"] or message.metric_type not in _METRICS:
            raise UnsupportedFeatureError(
                f"{self.path}: an index of the old format with the parts {stages} and the metric {message.metric_type}"
            )
        self.metric = _METRICS[message.metric_type]
        ivf, pq = message.stages[0].ivf, message.stages[1].pq
        if not len(ivf.offsets) == len(ivf.lengths):
            raise CorruptFileError(f"{self.path}: {len(ivf.offsets)} positions and {len(ivf.lengths)} lengths of partitions")
        self.centroids = self._centroids(ivf, dimensions)
        self.quantizer = self._quantizer(pq, dimensions)
        self._offsets = np.array(ivf.offsets, np.uint64)
        lengths = np.array(ivf.lengths, np.int64)
        self._check(lengths)
        stops = np.cumsum(lengths)
        self.partitions = Partitions(stops - lengths, stops)

    def _message(self) -> pb.VectorIndex:
        end = self._store.read_end(self.path, _FOOTER.size).tobytes()
        if len(end) < _FOOTER.size:
            raise CorruptFileError(f"{self.path}: expected at least {_FOOTER.size} bytes, found {len(end)}")
        self._position, major, minor, magic = _FOOTER.unpack(end)
        if magic != b"LANC" or (major, minor) not in _VERSIONS:
            raise UnsupportedFeatureError(
                f"{self.path}: expected an index of the version 0.1, found {magic!r} of the version {major}.{minor}"
            )
        size = self._store.size(self.path)
        if self._position + _LENGTH.size > size - _FOOTER.size:
            raise CorruptFileError(f"{self.path}: the position {self._position} of the metadata is outside of the file of {size} bytes")
        (data,) = self._store.read_ranges(self.path, [ByteRange(self._position, size - _FOOTER.size)])
        (length,) = _LENGTH.unpack(data[: _LENGTH.size].tobytes())
        if length > len(data) - _LENGTH.size:
            raise CorruptFileError(
                f"{self.path}: the metadata of {length} bytes at {self._position} is not within the file of {size} bytes"
            )
        return parse_message(pb.LegacyIndex, data[_LENGTH.size : _LENGTH.size + length], self.path).vector_index

    def _centroids(self, ivf: pb.Ivf, dimensions: int) -> Centroids:
        count = len(ivf.offsets)
        if ivf.HasField("centroids_tensor"):
            return centroids_of(tensor(ivf.centroids_tensor, self.path), self.metric, dimensions, self.path)
        found = np.array(ivf.centroids, np.float32)
        if found.size != count * dimensions:
            raise CorruptFileError(f"{self.path}: expected {count} centroids of {dimensions} dimensions, found {found.size} numbers")
        return centroids_of(found.reshape(count, dimensions), self.metric, dimensions, self.path)

    def _quantizer(self, pq: pb.ProductQuantizer, dimensions: int) -> ProductQuantizer:
        codebook = tensor(pq.codebook_tensor, self.path) if pq.HasField("codebook_tensor") else np.array(pq.codebook, np.float32)
        return product_quantizer_of(codebook, pq.num_bits, pq.num_sub_vectors, dimensions, self.metric, False, self.path)

    def _check(self, lengths: np.ndarray) -> None:
        """Raise CorruptFileError unless the partitions are before the metadata, so that none has more rows than the file has bytes."""
        sizes = lengths * (self.quantizer.width + _ROW_BYTES)
        limit = np.uint64(self._position)
        if len(lengths) != len(self.centroids.vectors):
            raise CorruptFileError(f"{self.path}: {len(lengths)} partitions, but {len(self.centroids.vectors)} centroids")
        if (sizes > self._position).any() or (self._offsets > limit - sizes.astype(np.uint64)).any() or sizes.sum() > self._position:
            raise CorruptFileError(f"{self.path}: expected partitions before the byte {self._position}, found others")

    def partition(self, number: int) -> Partition:
        """The rows and codes of a partition."""
        count, width, start = len(self.partitions.rows(number)), self.quantizer.width, int(self._offsets[number])
        middle = start + count * width
        codes, rows = self._store.read_ranges(self.path, [ByteRange(start, middle), ByteRange(middle, middle + count * _ROW_BYTES)])
        lists = pa.FixedSizeListArray.from_arrays(pa.array(codes), width)
        batch = pa.RecordBatch.from_arrays([lists], names=list(self.quantizer.columns))
        return Partition(np.frombuffer(rows.tobytes(), "<u8"), self.quantizer.codes(batch, self.path), None)
