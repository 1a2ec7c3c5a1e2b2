"""Validity bitmaps."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_spark.arrow.validity import validity_of


@pytest.mark.parametrize("start", [0, 3, 8, 11])
def test_a_validity_bitmap_begins_with_the_first_value(start: int) -> None:
    array = pa.array([None if i % 3 == 1 else i for i in range(20)])[start:]
    bitmap = validity_of(array)
    assert bitmap is not None
    assert pa.Array.from_buffers(pa.int64(), len(array), [bitmap, array.buffers()[1].slice(8 * start)]).to_pylist() == array.to_pylist()
    assert validity_of(pa.array([1, 2])) is None


def test_values_without_a_type_are_all_null() -> None:
    bitmap = validity_of(pa.nulls(9))
    assert bitmap is not None
    assert bitmap.to_pybytes() == b"\0\0"
