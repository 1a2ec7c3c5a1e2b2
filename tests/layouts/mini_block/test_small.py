"""The fast path for small pages writes the same bytes as the general writer."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.layouts.mini_block import small
from lance_spark.layouts.nodes.version_grammar import GRAMMARS
from lance_spark.schema.schema import from_arrow
from tests.layouts.general_writer import assert_is_general

TYPES: list[tuple[pa.DataType, Any]] = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.int64(), st.integers(-3, 3)),
    (pa.float32(), st.floats(width=32)),
    (pa.timestamp("us"), st.integers(0, 2)),
    (pa.string(), st.text(max_size=20)),
    (pa.large_binary(), st.binary(max_size=9)),
]


@given(
    st.sampled_from(TYPES).flatmap(lambda kind: st.tuples(st.just(kind[0]), st.lists(kind[1], min_size=1, max_size=12))), st.integers(0, 3)
)
def test_small_pages_are_the_same_as_those_made_with_arrays(case: Any, offset: int) -> None:
    t, values = case
    array = pa.array([values[0]] * offset + values, t).slice(offset)
    (field,) = from_arrow(pa.schema({"c": t})).fields
    for grammar in GRAMMARS.values():
        page = small.encode_small(field, array, grammar)
        if page is not None:
            assert_is_general(page, field, array, grammar)


def test_pages_with_nulls_options_or_more_bytes_are_not_small() -> None:
    (grammar, *_) = GRAMMARS.values()
    (plain, option) = from_arrow(
        pa.schema([("c", pa.int64()), pa.field("o", pa.int64(), metadata={"lance-encoding:compression": "zstd"})])
    ).fields
    array = pa.array([1, 2], pa.int64())
    assert small.encode_small(plain, array, grammar) is not None
    assert small.encode_small(option, array, grammar) is None
    assert small.encode_small(plain, pa.array([1, None], pa.int64()), grammar) is None
    assert small.encode_small(plain, pa.array(range(9), pa.int64()), grammar) is None
    assert small.encode_small(plain, array.slice(0, 0), grammar) is None
