"""Conditions that an index evaluates on its values hold for the same values as in a scan."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.predicate import Predicate, evaluate
from lance_spark.predicate.one_column import VALUE, holds
from lance_spark.predicate.tree import Column, Compare, Literal

INTEGERS = [pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.uint64()]


@pytest.mark.parametrize("t", INTEGERS, ids=str)
@given(data=st.data())
def test_integers_are_compared_as_in_a_scan(t: pa.DataType, data: st.DataObject) -> None:
    signed = pa.types.is_signed_integer(t)
    numbers = st.integers(-(2 ** (t.bit_width - 1)) if signed else 0, 2 ** (t.bit_width - signed) - 1)
    values = pa.array(data.draw(st.lists(st.one_of(numbers, st.none()) if data.draw(st.booleans()) else numbers, max_size=20)), t)
    condition = Compare(data.draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="])), Column((VALUE,), t), Literal(data.draw(numbers), t))
    expected = evaluate(Predicate(condition, ""), pa.record_batch({VALUE: values}))
    assert holds(condition, values).tolist() == expected.fill_null(False).to_pylist()
