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
from lance_spark.index.vector.distances import add_distances_of_parts
from lance_spark.index.vector.ivf import tensor
from lance_spark.kernels.kernel import kernel

_BITS = (4, 8)
_FEW = 8
"""Fewer queries than so many are compared one after another: the registers of a processor have as many numbers."""
_LANES = 16
"""Queries are compared by multiples of so many: for others, a part of each loop is for single numbers."""
_SIDE_BY_SIDE = 64
_PARTS = 4
"""So many queries are compared at once, by so many parts: their tables take 256 KB, which stay in the processor's caches."""


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
        """The codes of a partition, in memory part by part."""
        parts = len(self.codebook)
        stored = byte_rows(batch.column(0), what, self.width)
        if stored.dtype != np.uint8:
            raise CorruptFileError(f"{what}: expected codes of bytes, found {stored.dtype}")
        rows = stored.reshape(self.width, len(stored)) if self.transposed else stored.T
        if self._bits == 4:
            rows = np.stack([rows & 15, rows >> 4], axis=1).reshape(parts, -1)
        return Codes(np.ascontiguousarray(rows).T)

    def forms(self, queries: np.ndarray) -> np.ndarray:
        """See `codes.Quantizer`: the queries as they are."""
        return queries

    def distances(self, forms: np.ndarray, centroid: np.ndarray, codes: Codes) -> np.ndarray:
        """The sums of the distances of the parts of a query to the codewords. Those of cosine are those of l2: about twice as large.

        What is left of a query beside the centroid is rounded to their type, as pylance does.
        """
        parts = np.ascontiguousarray(codes.values.T)
        if len(forms) < _FEW:
            found = np.full((len(forms), len(codes.values)), self._constant, np.float32)
            add_from_tables(self._tables(forms, centroid), parts, found)
            return found.T
        lanes = -(-len(forms) // _LANES) * _LANES
        queries = np.zeros((forms.shape[1], lanes), np.float32)
        queries[:, : len(forms)] = self._compared(forms, centroid).T
        found = np.full((len(codes.values), lanes), self._constant, np.float32)
        add_side_by_side(queries, self.codebook, self.metric == "dot", parts, found)
        return found[:, : len(forms)]

    def compared(self, query: np.ndarray, centroid: np.ndarray, codes: Codes) -> Compared:
        """The same for single vectors."""
        (table,) = self._tables(query[None], centroid)
        return Compared(FROM_TABLE, codes.values, NO_NUMBERS, table, offset=self._constant)

    @property
    def _constant(self) -> int:
        """What is added to the sum over the parts: each of them has a 1 under dot."""
        return 1 - len(self.codebook) if self.metric == "dot" else 0

    def _tables(self, queries: np.ndarray, centroid: np.ndarray) -> np.ndarray:
        """The distance of each part of each query to each of its codewords."""
        is_dot = self.metric == "dot"
        tables = np.zeros((len(queries), *self.codebook.shape[:2]), np.float32)
        add_distances_of_parts(self._compared(queries, centroid), self._by_dimension, is_dot, tables)
        return 1 - tables if is_dot else tables

    def _compared(self, queries: np.ndarray, centroid: np.ndarray) -> np.ndarray:
        """What is compared with the codewords."""
        return np.ascontiguousarray(queries if self.metric == "dot" else queries - centroid, np.float32)

    @cached_property
    def _by_dimension(self) -> np.ndarray:
        """The codewords of each part, dimension by dimension."""
        return np.ascontiguousarray(self.codebook.transpose(0, 2, 1))


class UnusedCodesError(UnsupportedFeatureError):
    """The codes are of a form that no version of pylance searches, also not the one that wrote them: there might as well be no index."""


def product_quantizer(file: IndexFile, metadata: Mapping[str, object], metric: str, dimensions: int) -> ProductQuantizer:
    """The quantizer of a file of codes. Raises CorruptFileError or UnsupportedFeatureError."""
    bits, parts, position = (metadata.get(key) for key in ("nbits", "num_sub_vectors", "codebook_position"))
    if bits is None and "num_bits" in metadata:
        raise UnusedCodesError(f"{file.path}: codes of pylance 0.24, which pylance does not use either; create the index again")
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


@kernel
def table_side_by_side(queries: np.ndarray, codewords: np.ndarray, is_dot: bool, out: np.ndarray) -> None:
    """Store in `out[code, q]` (float32) the distances of a part of queries to its codewords, bit by bit as `add_distances_of_parts`.

    `queries[d, q]` and `codewords[code, d]` are float32. The inner loops have all queries, which the processor computes at once.
    """
    count, size = codewords.shape
    out[:] = 0
    for d in range(0, size - 7, 8):  # the sums of eight dimensions stay in a register
        q0, q1, q2, q3 = queries[d], queries[d + 1], queries[d + 2], queries[d + 3]
        q4, q5, q6, q7 = queries[d + 4], queries[d + 5], queries[d + 6], queries[d + 7]
        for code in range(count):
            own, word = out[code], codewords[code]
            w0, w1, w2, w3 = word[d], word[d + 1], word[d + 2], word[d + 3]
            w4, w5, w6, w7 = word[d + 4], word[d + 5], word[d + 6], word[d + 7]
            if is_dot:
                for q in range(queries.shape[1]):
                    total = own[q] + q0[q] * w0 + q1[q] * w1 + q2[q] * w2 + q3[q] * w3
                    own[q] = total + q4[q] * w4 + q5[q] * w5 + q6[q] * w6 + q7[q] * w7
            else:
                for q in range(queries.shape[1]):
                    a0, a1, a2, a3 = w0 - q0[q], w1 - q1[q], w2 - q2[q], w3 - q3[q]
                    a4, a5, a6, a7 = w4 - q4[q], w5 - q5[q], w6 - q6[q], w7 - q7[q]
                    total = own[q] + a0 * a0 + a1 * a1 + a2 * a2 + a3 * a3
                    own[q] = total + a4 * a4 + a5 * a5 + a6 * a6 + a7 * a7
    for d in range(size - size % 8, size):
        query = queries[d]
        for code in range(count):
            own, number = out[code], codewords[code, d]
            if is_dot:
                for q in range(queries.shape[1]):
                    own[q] += query[q] * number
            else:
                for q in range(queries.shape[1]):
                    own[q] += (number - query[q]) * (number - query[q])
    if is_dot:
        for code in range(count):
            own = out[code]
            for q in range(queries.shape[1]):
                own[q] = np.float32(1) - own[q]


@kernel
def add_side_by_side(queries: np.ndarray, codebook: np.ndarray, is_dot: bool, codes: np.ndarray, out: np.ndarray) -> None:
    """Add to `out[i, q]` (float32) the distance of each part of the query q to the codeword `codes[part, i]`, in order.

    `queries[d, q]` and `codebook[part, code, d]` are float32; every code (uint8) is the number of a codeword. A look-up in a table of
    distances to all codewords finds the numbers of many queries together.
    """
    for first in range(0, queries.shape[1], _SIDE_BY_SIDE):
        last = min(first + _SIDE_BY_SIDE, queries.shape[1])
        _add_some(np.ascontiguousarray(queries[:, first:last]), codebook, is_dot, codes, first, out)


@kernel
def _add_some(queries: np.ndarray, codebook: np.ndarray, is_dot: bool, codes: np.ndarray, first: int, out: np.ndarray) -> None:
    """The same for some queries, which are from `first` on in `out`."""
    parts, count, size = codebook.shape
    last = first + queries.shape[1]
    tables = np.empty((_PARTS, count, queries.shape[1]), np.float32)
    for begin in range(0, parts, _PARTS):
        some = min(_PARTS, parts - begin)
        for part in range(some):
            at = (begin + part) * size
            table_side_by_side(queries[at : at + size], codebook[begin + part], is_dot, tables[part])
        if some == _PARTS:  # the sums of four parts stay in a register
            for i in range(codes.shape[1]):
                own = out[i, first:last]
                t0, t1 = tables[0, codes[begin, i]], tables[1, codes[begin + 1, i]]
                t2, t3 = tables[2, codes[begin + 2, i]], tables[3, codes[begin + 3, i]]
                for q in range(len(own)):
                    own[q] = own[q] + t0[q] + t1[q] + t2[q] + t3[q]
        else:
            for part in range(some):
                for i in range(codes.shape[1]):
                    own, table = out[i, first:last], tables[part, codes[begin + part, i]]
                    for q in range(len(own)):
                        own[q] += table[q]
