"""Counts, minima and maxima of a scan, accumulated batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.predicate.evaluate import raw_values
from lance_spark.predicate.tree import Column


@dataclass(frozen=True)
class Aggregate:
    """The number of rows (`count` without a column) or of values that are not null, or the smallest or largest value.

    A minimum or maximum is null if there is no value. Floating point numbers are excluded: Arrow orders them differently than Spark.
    """

    function: Literal["count", "min", "max"]
    column: Column | None = None


def counted(aggregates: Sequence[Aggregate], rows: int) -> pa.RecordBatch:
    """The row of aggregates if all of them count rows."""
    return _row([pa.array([rows], pa.int64()) for _ in aggregates])


def aggregated(aggregates: Sequence[Aggregate], batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """One row with the columns a0, a1, ...: the aggregates of all rows of `batches`."""
    so_far: list[pa.Array] | None = None
    for batch in batches:
        new = [_of_batch(a, batch) for a in aggregates]
        so_far = new if so_far is None else [_of_both(a, *both) for a, *both in zip(aggregates, so_far, new)]
    if so_far is None:
        so_far = [pa.array([0], pa.int64()) if a.function == "count" else pa.nulls(1) for a in aggregates]
    return _row(so_far)


def _row(columns: Sequence[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, names=[f"a{i}" for i in range(len(columns))])


def _of_batch(aggregate: Aggregate, batch: pa.RecordBatch) -> pa.Array:
    if aggregate.column is None:
        return pa.array([batch.num_rows], pa.int64())
    values = raw_values(aggregate.column, batch)
    if aggregate.function == "count":
        return pa.array([len(values) - values.null_count], pa.int64())
    return _extreme(aggregate, values)


def _of_both(aggregate: Aggregate, a: pa.Array, b: pa.Array) -> pa.Array:
    if aggregate.function == "count":
        return pc.add(a, b)
    return _extreme(aggregate, pa.concat_arrays([a, b]))


def _extreme(aggregate: Aggregate, values: pa.Array) -> pa.Array:
    return pa.repeat(pc.min_max(values)[aggregate.function], 1)
