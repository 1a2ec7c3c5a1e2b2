"""PQ: a vector is cut into parts, and each part is the number of one of 16 or 256 codewords.

Vectors are encoded relative to their centroid, except under dot. The codes of a partition are stored part by part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark._proto import index_pb2 as pb
from lance_spark.buffers.messages import parse_message
from lance_spark.errors import CorruptFileError
from lance_spark.index.files import IndexFile
from lance_spark.index.vector.codes import Codes, byte_rows
from lance_spark.index.vector.ivf import tensor
from lance_spark.kernels.kernel import kernel

_BITS = (4, 8)


@dataclass(frozen=True)
class ProductQuantizer:
    """`codebook[part, code]` is the codeword (float32) of a code; if `transposed`, a partition has the codes part by part."""

    codebook: np.ndarray
    metric: str
    transposed: bool

    columns = ("__pq_code",)

    @property
    def _bits(self) -> int:
        return 8 if self.codebook.shape[1] == 1 << 8 else 4

    def codes(self, batch: pa.RecordBatch, what: str) -> Codes:
        """The codes of a partition: a row for each part."""
        parts = len(self.codebook)
        width = parts * self._bits // 8
        stored = byte_rows(batch.column(0), what, width)
        if stored.dtype != np.uint8:
            raise CorruptFileError(f"{what}: expected codes of bytes, found {stored.dtype}")
        rows = stored.reshape(width, len(stored)) if self.transposed else stored.T
        if self._bits == 4:
            rows = np.stack([rows & 15, rows >> 4], axis=1).reshape(parts, -1)
        return Codes(np.ascontiguousarray(rows))

    def distances(self, query: np.ndarray, centroid: np.ndarray, codes: Codes) -> np.ndarray:
        """The sums of the distances of the parts of the query to the codewords. Those of cosine are those of l2: about twice as large.

        What is left of the query beside the centroid is rounded to their type, as pylance does.
        """
        found = np.zeros(codes.values.shape[1], np.float32)
        if self.metric == "dot":
            table = 1 - self._along(query)
            found -= len(self.codebook) - 1
        else:
            apart = self.codebook - self._parts(query - centroid)
            table = np.einsum("ijk,ijk->ij", apart, apart)
        add_from_table(np.ascontiguousarray(table, np.float32), codes.values, found)
        return found

    def _along(self, query: np.ndarray) -> np.ndarray:
        return np.asarray(np.einsum("ijk,ilk->ij", self.codebook, self._parts(query)))

    def _parts(self, vector: np.ndarray) -> np.ndarray:
        return np.asarray(vector.astype(np.float32).reshape(len(self.codebook), 1, -1))


def product_quantizer(file: IndexFile, metadata: Mapping[str, object], metric: str, dimensions: int) -> ProductQuantizer:
    """The quantizer of a file of codes. Raises CorruptFileError."""
    bits, parts, position = (metadata.get(key) for key in ("nbits", "num_sub_vectors", "codebook_position"))
    bits = metadata.get("num_bits") if bits is None else bits  # its name in files of pylance 0.24
    if bits not in _BITS or not isinstance(parts, int) or parts < 1 or dimensions % parts or parts * int(bits) % 8:
        raise CorruptFileError(f"{file.path}: {parts} parts of {bits} bits do not encode {dimensions} dimensions")
    inline = metadata.get("codebook_tensor")
    data = bytes_of(inline, file.path) if inline else file.reader.global_buffer(position if isinstance(position, int) else -1)
    codebook = tensor(parse_message(pb.Tensor, data, f"{file.path}: codebook"), f"{file.path}: codebook")
    if codebook.size != dimensions << int(bits) or codebook.dtype == np.uint8:
        raise CorruptFileError(f"{file.path}: expected {1 << int(bits)} codewords of {dimensions} dimensions, found {codebook.shape}")
    # The order of the numbers is that of parts, then codes, whatever the shape says.
    codebook = codebook.astype(np.float32).reshape(parts, 1 << int(bits), dimensions // parts)
    return ProductQuantizer(codebook, metric, bool(metadata.get("transposed", False)))


def bytes_of(numbers: object, what: str) -> bytes:
    """The bytes in a list of JSON."""
    try:
        return bytes(numbers)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError) as e:
        raise CorruptFileError(f"{what}: expected a list of bytes, found {str(numbers)[:100]!r}") from e


@kernel
def add_from_table(table: np.ndarray, codes: np.ndarray, out: np.ndarray) -> None:
    """Add to `out[i]` (float32) the `table[part, codes[part, i]]` of each part. Every code (uint8) is less than the width of the table."""
    for part in range(codes.shape[0]):
        for i in range(codes.shape[1]):
            out[i] += table[part, codes[part, i]]
