"""The remainder of integers by one number is that by a column of this number, which is calculated step by step."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.predicate import parse_formula
from lance_spark.predicate.evaluate import calculate
from lance_spark.schema.schema import from_arrow

TYPES = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]


@pytest.mark.parametrize("t", TYPES, ids=str)
@given(data=st.data())
def test_a_literal_divisor_gives_what_a_column_gives(t: pa.DataType, data: st.DataObject) -> None:
    numbers = st.integers(-(2 ** (t.bit_width - 1)), 2 ** (t.bit_width - 1) - 1)
    values = data.draw(st.lists(st.one_of(numbers, st.none()), min_size=1, max_size=20))
    divisor = data.draw(st.one_of(st.sampled_from([-1, 0, 1, 100]), numbers))
    batch = pa.record_batch({"a": pa.array(values, t), "b": pa.array([divisor] * len(values), t)})
    schema = from_arrow(batch.schema)
    literal = f"CAST({divisor} AS {['TINYINT', 'SMALLINT', 'INT', 'BIGINT'][TYPES.index(t)]})"
    found, expected = (calculate(parse_formula(text, schema), batch) for text in (f"a % {literal}", "a % b"))
    assert found.to_pylist() == expected.to_pylist()
    exact = [None if v is None or not divisor else abs(v) % abs(divisor) * (1 if v >= 0 else -1) for v in values]
    assert found.to_pylist() == exact
