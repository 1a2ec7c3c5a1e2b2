"""Top-n compared with a full sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.predicate.tree import Column
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
