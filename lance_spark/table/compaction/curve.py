"""The place of rows on a Hilbert curve through several columns: rows near each other on it have near values in every column.

A value counts by its rank: the share of a sample of the column that is smaller. Ranks spread rows evenly, whatever the values are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.arrow.types import is_binary, is_text
from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.kernels.kernel import kernel
from lance_spark.schema.schema import Schema
from lance_spark.table.write.order import has_order

MOST_COLUMNS = 4
_RANK_BITS = 16
"""Four ranks of 16 bits make a place of 64 bits. A column of a table of 2^32 rows has 65,536 rows of each rank."""
_PREFIX_BYTES = 32
"""Texts are compared by their first bytes, since clustering needs no exact order."""


@dataclass(frozen=True)
class Sample:
    """Values of one column in order, see `comparable`; `nulls` is the number of nulls, which come first."""

    values: np.ndarray
    nulls: int

    def ranks(self, values: np.ndarray, null: np.ndarray) -> np.ndarray:
        """The ranks of other values of the column, as uint64 below 2**16."""
        total = max(len(self.values) + self.nulls, 1)
        places = np.searchsorted(self.values, values) + self.nulls
        ranks = places.astype(np.uint64) * np.uint64((1 << _RANK_BITS) - 1) // np.uint64(total)
        ranks[null] = 0
        return ranks


def joined_samples(parts: Sequence[Sequence[tuple[np.ndarray, np.ndarray]]]) -> tuple[Sample, ...]:
    """The sample of each column from the parts that tasks have taken, each with values and a mask of nulls for each column."""
    samples = []
    for column in zip(*parts):
        null = np.concatenate([mask for _, mask in column])
        values = np.concatenate([values for values, _ in column])[~null]
        values.sort()
        samples.append(Sample(values, int(null.sum())))
    return tuple(samples)


def check_columns(schema: Schema, columns: Sequence[str]) -> None:
    """Raise UnsupportedFeatureError for a column whose values have no order, and SchemaMismatchError for one that does not exist.

    There are at most four, and each is named once; else InvalidOptionError is raised.
    """
    if len(columns) > MOST_COLUMNS:
        raise InvalidOptionError(f"a table can be clustered by at most {MOST_COLUMNS} columns, not {len(columns)}")
    if len(set(columns)) < len(columns):
        raise InvalidOptionError(f"a table is clustered by each column once, not by {', '.join(map(repr, columns))}")
    for name in columns:
        field = schema.resolve(name)[-1]
        if not has_order(field):
            raise UnsupportedFeatureError(
                f"clustering by the column {name!r} of type {field.logical_type} is not supported; use numbers, times, texts or bytes"
            )


def comparable(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Numbers (float64), or bytes of fixed length, in about the order of the values, and the mask of nulls.

    What rounding makes equal gets one rank. NaN is the largest number.
    """
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    null = values.is_null().to_numpy(zero_copy_only=False)
    t = values.type
    if is_text(t) or is_binary(t) or pa.types.is_fixed_size_binary(t):
        prefix = pc.binary_slice(values.cast(pa.binary()), 0, _PREFIX_BYTES).fill_null(b"")
        return prefix.to_numpy(zero_copy_only=False).astype(f"S{_PREFIX_BYTES}"), null
    if pa.types.is_boolean(t):
        values = values.cast(pa.uint8())
    elif pa.types.is_temporal(t):
        # Arrow casts times only to integers of their own width.
        values = values.cast(pa.int32() if t.bit_width == 32 else pa.int64())
    return values.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False), null


def places(samples: Sequence[Sample], columns: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The place of each row on the curve, as uint64. Each column has values and a mask of nulls, see `comparable`."""
    return hilbert([sample.ranks(values, null) for sample, (values, null) in zip(samples, columns, strict=True)])


def hilbert(ranks: Sequence[np.ndarray]) -> np.ndarray:
    """The distance along the Hilbert curve of points with these coordinates (uint64 below 2**16)."""
    points = np.ascontiguousarray(np.stack(ranks, axis=1), np.uint64)
    _distances(points, points.shape[1] > 1)
    return points[:, 0].copy()


@kernel
def _distances(points: np.ndarray, turns: bool) -> None:
    """Replace the first coordinate of each point by the distance: J. Skilling's method, then the bits of all coordinates in turn."""
    one, columns = np.uint64(1), points.shape[1]
    for i in range(points.shape[0]):
        point = points[i]
        if turns:
            # Undo the turns of the curve in each cell, from large cells to small ones.
            for bit in range(15, 0, -1):
                low = (one << np.uint64(bit)) - one
                for c in range(columns):
                    if point[c] >> np.uint64(bit) & one:
                        point[0] ^= low
                    else:
                        swapped = (point[0] ^ point[c]) & low
                        point[0] ^= swapped
                        point[c] ^= swapped
            # The Gray code: neighbours on the curve differ in one coordinate.
            for c in range(1, columns):
                point[c] ^= point[c - 1]
            turn = np.uint64(0)
            for bit in range(15, 0, -1):
                if point[columns - 1] >> np.uint64(bit) & one:
                    turn ^= (one << np.uint64(bit)) - one
            for c in range(columns):
                point[c] ^= turn
        distance = np.uint64(0)
        for bit in range(15, -1, -1):
            for c in range(columns):
                distance = (distance << one) | (point[c] >> np.uint64(bit) & one)
        point[0] = distance
