"""RQ (RaBitQ): a vector is rotated, and each number becomes its sign and up to 8 further bits.

Factors of each vector correct the distances.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from lance_spark._proto import index_pb2 as pb
from lance_spark.buffers.messages import parse_message
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.index.files import IndexFile
from lance_spark.index.vector.codes import GROUP, Codes, byte_rows, numbers
from lance_spark.index.vector.ivf import tensor
from lance_spark.index.vector.pq import bytes_of
from lance_spark.index.vector.products import add_products
from lance_spark.index.vector.rq_layout import ex_codes, signs
from lance_spark.index.vector.rq_many import LEAST_QUERIES, Kept, ManyQueries, many_queries
from lance_spark.index.vector.rq_rotation import fast_rotation
from lance_spark.kernels.kernel import kernel

MOST_DIMENSIONS = 1 << 13
"""The rotation is a matrix, of 256 MB at most."""


_STEPS = 255
_ACCURATE_STEPS = 65535
"""How finely sums of numbers of the query are rounded, with the approx_mode "accurate" and otherwise; as in pylance."""


@dataclass(frozen=True)
class RaBitQuantizer:
    """`rotation` (float32) has a row for each rotated dimension. With `residual`, what is rotated is the query less the centroid.

    Sums of numbers of a query are rounded to `steps`, see `sums_of_signs`.
    """

    rotation: np.ndarray
    bits: int
    metric: str
    packed: bool
    residual: bool
    steps: int = _STEPS

    def in_mode(self, mode: str) -> RaBitQuantizer:
        """How a search with this `approx_mode` compares codes: "fast" by their signs alone, "accurate" with finer steps."""
        if mode == "fast":
            return replace(self, bits=1)
        return replace(self, steps=_ACCURATE_STEPS) if mode == "accurate" else self

    @property
    def columns(self) -> tuple[str, ...]:
        """See `codes.Quantizer`."""
        ex = "_ex" if self.bits > 1 else ""
        return ("_rabit_codes", f"__add_factors{ex}", f"__scale_factors{ex}", *(("__blocked_ex_codes",) if ex else ()))

    def codes(self, batch: pa.RecordBatch, what: str) -> Codes:
        """The signs as `values`, 8 in a byte, and the factors; `ex` are the further bits. Both are in memory byte by byte."""
        size = len(self.rotation)
        stored = byte_rows(batch.column(0), what, -(-size // 8))
        if stored.dtype != np.uint8:
            raise CorruptFileError(f"{what}: expected codes of bytes, found {stored.dtype}")
        factors = {name: numbers(batch.column(i), np.float32, what) for i, name in ((1, "add"), (2, "scale"))}
        if self.bits > 1:
            width = -(-size // 64) * 8 * (self.bits - 1)
            factors["ex"] = np.ascontiguousarray(ex_codes(byte_rows(batch.column(3), what, width), self.bits - 1, size).T).T
        return Codes(np.ascontiguousarray((signs(stored) if self.packed else stored).T).T, factors)

    def forms(self, queries: np.ndarray) -> np.ndarray:
        """See `codes.Quantizer`: the queries, and beside them, what they are rotated."""
        queries = queries.astype(np.float32)
        return queries if self.residual else np.concatenate([queries, self._rotated(queries)], axis=1)

    def distances(self, forms: np.ndarray, centroid: np.ndarray, codes: Codes) -> np.ndarray:
        """See `codes.Quantizer`. Those of cosine are those of l2: about twice as large."""
        centroid = centroid.astype(np.float32)
        queries = forms[:, : len(centroid)]
        apart = queries - centroid
        rotated = self._rotated(apart) if self.residual else np.ascontiguousarray(forms[:, len(centroid) :])
        along = np.empty((len(queries), len(codes.values)), np.float32)
        sums_of_signs(rotated, np.ascontiguousarray(codes.values.T), self.steps, along)
        total = rotated.sum(axis=1)[:, None]
        if self.residual:
            along = (2 * along - total) / np.float32(np.sqrt(rotated.shape[1]))
        else:
            scale = np.float32(1 << (self.bits - 1))
            along = along * scale - (scale - np.float32(0.5)) * total
            if self.bits > 1:
                add_products(rotated, np.ascontiguousarray(codes.factors["ex"].T), along)
        add = codes.factors["add"]
        if self.metric != "dot":
            return np.asarray(np.einsum("ij,ij->i", apart, apart)[:, None] + add + codes.factors["scale"] * along, np.float32).T
        # The part of a query that is along the centroid is not estimated: its product with a vector follows from `add`.
        product, share = _along(queries, centroid)
        return np.asarray((1 - product)[:, None] + share[:, None] * (add - 1) + codes.factors["scale"] * along, np.float32).T

    def many(self, forms: np.ndarray, dimensions: int) -> ManyQueries | None:
        """Many queries as `add_nearest` takes them; None if they must be compared as `distances` does."""
        if self.residual or len(forms) < LEAST_QUERIES:
            return None
        return many_queries(np.ascontiguousarray(forms[:, dimensions:]), self.bits, self.steps)

    def add_nearest(
        self,
        many: ManyQueries,
        forms: np.ndarray,
        centroid: np.ndarray,
        codes: Codes,
        rows: np.ndarray,
        which: np.ndarray,
        queries: np.ndarray,
        kept: Kept,
    ) -> None:
        """Add to the `queries` those of the rows of a partition at `which` that are near, with the distances that `distances` has."""
        centroid = centroid.astype(np.float32)
        own = forms[queries, : len(centroid)]
        if self.metric == "dot":
            product, shares = _along(own, centroid)
            codes = replace(codes, factors={**codes.factors, "add": codes.factors["add"] - np.float32(1)})
            constants = 1 - product
        else:
            apart = own - centroid
            constants, shares = np.einsum("ij,ij->i", apart, apart), np.ones(len(own), np.float32)
        many.add_nearest(queries, constants, shares, codes, rows, which, kept)

    def _rotated(self, queries: np.ndarray) -> np.ndarray:
        rotated = np.zeros((len(queries), len(self.rotation)), np.float32)
        add_products(queries, self._by_dimension, rotated)
        return rotated

    @cached_property
    def _by_dimension(self) -> np.ndarray:
        return np.ascontiguousarray(self.rotation.T)


@kernel
def sums_of_signs(rotated: np.ndarray, codes: np.ndarray, steps: int, out: np.ndarray) -> None:
    """Store in `out[q, i]` (float32) the sum of the numbers of `rotated[q]` (float32) that have a sign in column i of `codes` (uint8).

    Each row of `codes` has the signs of 8 numbers, the first in the lowest bit. In whole groups of vectors, the sums of 4 numbers are
    rounded to one of so many steps between the smallest and the largest of them, as in pylance; those of the last vectors are exact.
    """
    parts, count = codes.shape
    grouped = count // GROUP * GROUP
    fours, whole = np.zeros((2 * parts, 16), np.float32), np.empty((parts, 256), np.float32)
    for q in range(rotated.shape[0]):
        numbers, own = rotated[q], out[q]
        for four in range(2 * parts):
            table = fours[four]
            for d in range(4):
                number = numbers[4 * four + d] if 4 * four + d < len(numbers) else np.float32(0)
                for signs_before in range(1 << d):
                    table[signs_before + (1 << d)] = table[signs_before] + number
        for i in range(grouped, count):
            total = np.float32(0)
            for part in range(parts):
                total += fours[2 * part, codes[part, i] & 15] + fours[2 * part + 1, codes[part, i] >> 4]
            own[i] = total
        if not grouped:
            continue
        low, high = fours.min(), fours.max()
        step = (high - low) / np.float32(steps)
        per_step = np.float32(1) / step if step > 0 else np.float32(0)
        for four in range(2 * parts):
            for signs_of_four in range(16):
                fours[four, signs_of_four] = np.rint((fours[four, signs_of_four] - low) * per_step)
        for part in range(parts):
            for late in range(16):
                for early in range(16):
                    whole[part, 16 * late + early] = fours[2 * part, early] + fours[2 * part + 1, late]
        fours[:, 0] = 0
        own[:grouped] = 0
        for part in range(0, parts - 3, 4):  # the sums of four parts stay in a register
            for i in range(grouped):
                total = own[i] + whole[part, codes[part, i]]
                total += whole[part + 1, codes[part + 1, i]]
                total += whole[part + 2, codes[part + 2, i]]
                own[i] = total + whole[part + 3, codes[part + 3, i]]
        for part in range(parts - parts % 4, parts):
            for i in range(grouped):
                own[i] += whole[part, codes[part, i]]
        for i in range(grouped):
            own[i] = own[i] * step + np.float32(2 * parts) * low


def _along(queries: np.ndarray, centroid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The product of each query and the centroid, and the share of the query's part along it. They do not depend on other queries."""
    product, squared = np.einsum("ij,j->i", queries, centroid), centroid @ centroid
    return product, product / squared if squared else np.zeros_like(product)


def rabit_quantizer(file: IndexFile, metadata: Mapping[str, object], metric: str, dimensions: int) -> RaBitQuantizer:
    """The quantizer of a file of codes. Raises CorruptFileError or UnsupportedFeatureError."""
    bits, size, position = metadata.get("num_bits"), metadata.get("code_dim", dimensions), metadata.get("rotate_mat_position")
    if not isinstance(bits, int) or not 1 <= bits <= 9 or not isinstance(size, int) or not dimensions <= size <= MOST_DIMENSIONS:
        raise CorruptFileError(f"{file.path}: {bits} bits in {size} dimensions do not encode {dimensions} dimensions")
    residual = metadata.get("query_estimator", "residual_query") != "raw_query"
    if residual and (metric != "l2" or bits > 1):
        raise UnsupportedFeatureError(f"{file.path}: codes of RQ of {bits} bits relative to centroids under {metric}")
    if position is not None:
        data = file.reader.global_buffer(position if isinstance(position, int) else -1)
        rotation = tensor(parse_message(pb.Tensor, data, f"{file.path}: rotation"), f"{file.path}: rotation").astype(np.float32)
    else:
        flips = np.frombuffer(bytes_of(metadata.get("fast_rotation_signs"), file.path), np.uint8)
        rotation = fast_rotation(flips, dimensions, size, file.path)
    if rotation.shape != (size, dimensions):
        raise CorruptFileError(f"{file.path}: expected a rotation of {dimensions} to {size} dimensions, found {rotation.shape}")
    return RaBitQuantizer(rotation, bits, metric, bool(metadata.get("packed", False)), residual)
