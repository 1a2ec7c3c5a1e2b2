"""Top-n compared with a full sort, and aggregates compared with Arrow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.predicate.tree import Column
from lance_spark.table.scan.aggregate import Aggregate, aggregated, counted
from lance_spark.table.scan.top_n import SortKey, Top

VALUES = st.tuples(st.none() | st.integers(-3, 3), st.none() | st.sampled_from(["", "a", "b", "é"]))


def batches(rows: list[tuple[Any, Any]], size: int) -> list[pa.RecordBatch]:
    schema = pa.schema([("i", pa.int32()), ("s", pa.string())])
    cut = [rows[at : at + size] for at in range(0, len(rows), size)]
    return [pa.record_batch([pa.array(c, f.type) for c, f in zip(zip(*part), schema)], schema=schema) for part in cut]


def before(value: Any, key: SortKey) -> tuple[int, Any]:
    """A sort key with Spark's order for a value of one column."""
    null = (0 if key.nulls_first else 2, 0)
    if value is None:
        return null
    number = value if isinstance(value, int) else ["", "a", "b", "é"].index(value)
    return (1, number if key.ascending else -number)


@given(st.lists(VALUES, max_size=60), st.integers(1, 9), st.integers(0, 12), st.lists(st.booleans(), min_size=4, max_size=4))
def test_the_first_rows_are_those_of_a_sort(rows: list[tuple[Any, Any]], size: int, count: int, flags: list[bool]) -> None:
    keys = [SortKey(Column(("i",), pa.int32()), *flags[:2]), SortKey(Column(("s",), pa.string()), *flags[2:])]
    top = Top(keys, count)
    start = 0
    for number, batch in enumerate(batches(rows, size)):
        top.add(number // 2, np.arange(start, start + batch.num_rows), batch)
        start += batch.num_rows
    chosen = sorted(p for positions in top.positions().values() for p in positions.tolist())
    assert len(chosen) == len(set(chosen)) == min(count, len(rows))
    order = sorted(tuple(before(v, k) for v, k in zip(row, keys)) for row in rows)
    assert sorted(tuple(before(v, k) for v, k in zip(rows[p], keys)) for p in chosen) == order[:count]


@given(st.lists(VALUES, max_size=40), st.integers(1, 9))
def test_aggregates_of_batches_are_those_of_the_whole(rows: list[tuple[Any, Any]], size: int) -> None:
    i, s = Column(("i",), pa.int32()), Column(("s",), pa.string())
    wanted = [Aggregate("count"), Aggregate("count", s), Aggregate("min", i), Aggregate("max", i), Aggregate("min", s), Aggregate("max", s)]
    got = [column[0].as_py() for column in aggregated(wanted, batches(rows, size))]
    numbers, texts = pa.array([r[0] for r in rows], pa.int32()), pa.array([r[1] for r in rows], pa.string())
    least = [pc.min(numbers), pc.max(numbers), pc.min(texts), pc.max(texts)]
    assert got == [len(rows), len(texts) - texts.null_count, *(value.as_py() for value in least)]


@pytest.mark.parametrize(
    ("kind", "values", "least", "most"),
    [
        (pa.bool_(), [True, None, False], False, True),
        (pa.binary(), [b"\x80", b"\x7f", b""], b"", b"\x80"),
        (pa.decimal128(5, 2), [None, None], None, None),
        (pa.dictionary(pa.int8(), pa.string()), ["b", "a"], "a", "b"),
    ],
)
def test_minima_and_maxima_of_other_types(kind: pa.DataType, values: list[Any], least: Any, most: Any) -> None:
    batch = pa.record_batch([pa.array(values, kind)], names=["c"])
    column = Column(("c",), kind)
    row = aggregated([Aggregate("min", column), Aggregate("max", column)], [batch, batch])
    assert [c[0].as_py() for c in row] == [least, most]


def test_counts_of_rows_need_no_batch() -> None:
    assert counted([Aggregate("count"), Aggregate("count")], 7).to_pydict() == {"a0": [7], "a1": [7]}
