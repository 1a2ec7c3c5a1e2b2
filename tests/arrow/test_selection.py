"""Selections of rows of nested fixed-size lists match a selection in Python."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.arrow.selection import keep, keep_rows, take, take_rows

GRID = pa.list_(pa.list_(pa.int16(), 3), 2)
VALUES = [None if i % 7 == 0 else [[i, i + 1, i + 2], [i + 3, None, i + 5]] for i in range(40)]


@pytest.mark.parametrize("wrap", ["plain", "struct", "list"])
@given(st.integers(0, 30), st.lists(st.booleans(), min_size=10, max_size=10))
def test_rows_of_nested_lists_are_selected_correctly(wrap: str, skip: int, mask: list[bool]) -> None:
    array: pa.Array = pa.array(VALUES, GRID)
    rows: list[Any] = VALUES
    if wrap == "struct":
        array, rows = pa.array([{"g": v} for v in VALUES], pa.struct([("g", GRID)])), [{"g": v} for v in VALUES]
    if wrap == "list":
        array, rows = pa.array([[v, v] for v in VALUES], pa.list_(GRID)), [[v, v] for v in VALUES]
    array, rows = array.slice(skip, 10), rows[skip : skip + 10]
    chosen = [row for row, wanted in zip(rows, mask) if wanted]
    numbers = pa.array([i for i, wanted in enumerate(mask) if wanted], pa.int64())
    batch = pa.record_batch([array], names=["v"])
    assert keep(array, pa.array(mask)).to_pylist() == chosen
    assert take(array, numbers).to_pylist() == chosen
    assert keep_rows(batch, pa.array(mask))["v"].to_pylist() == chosen
    assert take_rows(pa.Table.from_batches([batch]), numbers)["v"].to_pylist() == chosen
