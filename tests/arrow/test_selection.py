"""Selections of rows of nested fixed-size lists match a selection in Python."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.arrow.selection import keep, keep_rows, take, take_rows, window

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


def test_rows_without_columns_keep_their_number() -> None:
    rows = pa.table({"a": [1, 2]}, metadata={"k": "v"}).select([])
    taken = take_rows(rows, pa.array([1, 0, 1]))
    assert (taken.num_rows, taken.schema.metadata) == (3, {b"k": b"v"})


@pytest.mark.parametrize("offset", [0, 1, 3, 4, 7, 20])
@pytest.mark.parametrize("limit", [None, 0, 1, 3, 20])
def test_a_window_is_a_slice_of_all_rows_without_empty_batches(offset: int, limit: int | None) -> None:
    batches = [pa.record_batch({"a": pa.array(part, pa.int8())}) for part in ([0, 1, 2], [], [3], [4, 5, 6, 7])]
    found = list(window(iter(batches), offset, limit))
    assert all(batch.num_rows for batch in found)
    values = [value for batch in found for value in batch["a"].to_pylist()]
    assert values == list(range(8))[offset : None if limit is None else offset + limit]


def test_no_batch_is_taken_after_the_last_row_of_a_window() -> None:
    batches = iter([pa.record_batch({"a": [i]}) for i in range(4)])
    assert len(list(window(batches, 0, 2))) == 2
    assert len(list(batches)) == 2
