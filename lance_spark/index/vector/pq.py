"""PQ: a vector is cut into parts, and each part is the number of one of 16 or 256 codewords.

Vectors are encoded relative to their centroid, except under dot. The codes of a partition are stored part by part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from lance_spark._proto import index_pb2 as pb
from lance_spark.buffers.messages import parse_message
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.index.files import IndexFile
from lance_spark.index.vector.codes import Codes, byte_rows
from lance_spark.index.vector.compared import FROM_TABLE, NO_NUMBERS, Compared
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

    @property
    def width(self) -> int:
        """The bytes of the codes of a vector."""
        return len(self.codebook) * self._bits // 8

    def codes(self, batch: pa.RecordBatch, what: str) -> Codes:
        """The codes of a partition: a row for each part."""
        parts = len(self.codebook)
        stored = byte_rows(batch.column(0), what, self.width)
        if stored.dtype != np.uint8:
            raise CorruptFileError(f"{what}: expected codes of bytes, found {stored.dtype}")
        rows = stored.reshape(self.width, len(stored)) if self.transposed else stored.T
        if self._bits == 4:
            rows = np.stack([rows & 15, rows >> 4], axis=1).reshape(parts, -1)
        return Codes(np.ascontiguousarray(rows))

    def forms(self, queries: np.ndarray) -> np.ndarray:
        """See `codes.Quantizer`: the queries as they are."""
        return queries

    def distances(self, forms: np.ndarray, centroid: np.ndarray, codes: Codes) -> np.ndarray:
        """The sums of the distances of the parts of a query to the codewords. Those of cosine are those of l2: about twice as large.

        What is left of a query beside the centroid is rounded to their type, as pylance does.
        """
        found = np.full((len(forms), codes.values.shape[1]), self._constant, np.float32)
        add_from_tables(self._tables(forms, centroid), codes.values, found)
        return found

    def compared(self, query: np.ndarray, centroid: np.ndarray, codes: Codes) -> Compared:
        """The same for single vectors."""
        (table,) = self._tables(query[None], centroid)
        return Compared(FROM_TABLE, codes.values.T, NO_NUMBERS, table, offset=self._constant)

    @property
    def _constant(self) -> int:
        """What is added to the sum over the parts: each of them has a 1 under dot."""
        return 1 - len(self.codebook) if self.metric == "dot" else 0

    def _tables(self, queries: np.ndarray, centroid: np.ndarray) -> np.ndarray:
        """The distance of each part of each query to each of its codewords."""
        is_dot = self.metric == "dot"
        compared = np.ascontiguousarray(queries if is_dot else queries - centroid, np.float32)
        tables = np.zeros((len(queries), *self.codebook.shape[:2]), np.float32)
        add_distances_of_parts(compared, self._by_dimension, is_dot, tables)
        return 1 - tables if is_dot else tables

    @cached_property
    def _by_dimension(self) -> np.ndarray:
        """The codewords of each part, dimension by dimension."""
        return np.ascontiguousarray(self.codebook.transpose(0, 2, 1))


def product_quantizer(file: IndexFile, metadata: Mapping[str, object], metric: str, dimensions: int) -> ProductQuantizer:
    """The quantizer of a file of codes. Raises CorruptFileError or UnsupportedFeatureError."""
    bits, parts, position = (metadata.get(key) for key in ("nbits", "num_sub_vectors", "codebook_position"))
    if bits is None and "num_bits" in metadata:
        raise UnsupportedFeatureError(f"{file.path}: codes of pylance 0.24, which pylance does not use either; create the index again")
    if not isinstance(bits, int) or not isinstance(parts, int):
        raise CorruptFileError(f"{file.path}: expected numbers of bits and parts, found {bits} and {parts}")
    inline = metadata.get("codebook_tensor")
    data = bytes_of(inline, file.path) if inline else file.reader.global_buffer(position if isinstance(position, int) else -1)
    codebook = tensor(parse_message(pb.Tensor, data, f"{file.path}: codebook"), f"{file.path}: codebook")
    return product_quantizer_of(codebook, bits, parts, dimensions, metric, bool(metadata.get("transposed", False)), file.path)


def product_quantizer_of(
    codebook: np.ndarray, bits: int, parts: int, dimensions: int, metric: str, transposed: bool, what: str
) -> ProductQuantizer:
    """The quantizer with these codewords, which has so many parts of so many bits. Raises CorruptFileError."""
    if bits not in _BITS or parts < 1 or dimensions % parts or parts * bits % 8:
        raise CorruptFileError(f"{what}: {parts} parts of {bits} bits do not encode {dimensions} dimensions")
    if codebook.size != dimensions << bits or codebook.dtype == np.uint8:
        raise CorruptFileError(f"{what}: expected {1 << bits} codewords of {dimensions} dimensions, found {codebook.shape}")
    # The order of the numbers is that of parts, then codes, whatever the shape says.
    codebook = codebook.astype(np.float32).reshape(parts, 1 << bits, dimensions // parts)
    return ProductQuantizer(codebook, metric, transposed)


def bytes_of(numbers: object, what: str) -> bytes:
    """The bytes in a list of JSON."""
    try:
        return bytes(numbers)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError) as e:
        raise CorruptFileError(f"{what}: expected a list of bytes, found {str(numbers)[:100]!r}") from e


@kernel
def add_distances_of_parts(queries: np.ndarray, codewords: np.ndarray, is_dot: bool, out: np.ndarray) -> None:
    """Add to `out[q, part, code]` (float32) the squared distance of a part of `queries[q]` (float32) to a codeword, or their product.

    `codewords[part, :, code]` (float32) is one of them: the inner loop has all codewords of a part, which the processor computes at once.
    """
    parts, size, count = codewords.shape
    for q in range(queries.shape[0]):
        for part in range(parts):
            for d in range(size):
                own = queries[q, part * size + d]
                if is_dot:
                    for code in range(count):
                        out[q, part, code] += own * codewords[part, d, code]
                else:
                    for code in range(count):
                        apart = codewords[part, d, code] - own
                        out[q, part, code] += apart * apart


@kernel
def add_from_tables(tables: np.ndarray, codes: np.ndarray, out: np.ndarray) -> None:
    """Add to `out[q, i]` (float32) the `tables[q, part, codes[part, i]]` of each part, in order.

    Every code (uint8) is less than the width of the tables.
    """
    parts = codes.shape[0]
    for q in range(tables.shape[0]):
        table, own = tables[q], out[q]
        for part in range(0, parts - 3, 4):  # the sums of four parts stay in a register
            for i in range(codes.shape[1]):
                total = own[i] + table[part, codes[part, i]]
                total += table[part + 1, codes[part + 1, i]]
                total += table[part + 2, codes[part + 2, i]]
                own[i] = total + table[part + 3, codes[part + 3, i]]
        for part in range(parts - parts % 4, parts):
            for i in range(codes.shape[1]):
                own[i] += table[part, codes[part, i]]
