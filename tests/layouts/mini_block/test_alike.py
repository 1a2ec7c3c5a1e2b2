"""Pages of many columns that are encoded together have the same bytes as those of the general writer."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import example, given
from hypothesis import strategies as st

from lance_spark.layouts.mini_block.alike import encode_together
from lance_spark.layouts.nodes.version_grammar import GRAMMARS
from lance_spark.schema.schema import Schema, from_arrow
from tests.layouts.general_writer import assert_is_general

COUNTS = (1, 2, 3, 8, 9, 99, 100, 255, 256, 510, 511, 512)
TYPES = (pa.int8(), pa.uint16(), pa.int32(), pa.int64(), pa.float16(), pa.float64(), pa.timestamp("us"), pa.date32())


def column(seed: int, count: int, kind: pa.DataType) -> pa.Array:
    """Values of all shapes: constant, in runs, repeated, small, wide."""
    rng = np.random.default_rng(seed)
    width = kind.bit_width
    values = [
        np.full(count, seed),
        np.arange(count) // 7,
        rng.integers(0, 3 + seed % 60, count),
        rng.integers(0, 1 << (seed % min(width - 1, 62)), count),
        rng.integers(0, 256, count * 8, np.uint8).view(np.int64),
    ][seed % 5]
    words = values.astype(f"u{width // 8}") if width < 64 else values.astype(np.int64)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(words.tobytes())])


def texts(seed: int, count: int, kind: pa.DataType) -> pa.Array:
    """Texts of all shapes: constant, repeated, distinct, empty, some too long for a chunk."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, [1, 3, 3 + seed % 200, 1 << 40, 1 << 40][seed % 5], count)
    longest = 1 + seed % [1, 9, 40, 300][seed // 5 % 4]
    return pa.array([str(n) * int(rng.integers(0, longest)) if seed % 2 else str(n) for n in numbers.tolist()]).cast(kind)


def with_nulls(array: pa.Array, seed: int) -> pa.Array:
    """The array with nulls: few, in runs, many, all but one."""
    count = len(array)
    rng = np.random.default_rng(seed)
    nulls = [rng.random(count) < 0.02, np.arange(count) // 9 % 2 == 0, rng.random(count) < 0.7, np.arange(count) != count // 2][seed % 4]
    nulls[seed % count] = True
    return pc.if_else(pa.array(nulls), pa.scalar(None, array.type), array)


def schema_of(*kinds: pa.DataType) -> Schema:
    return from_arrow(pa.schema([(f"c{i}", kind) for i, kind in enumerate(kinds)]))


@example(list(range(12)), 510, pa.int64(), 1)
@example(list(range(12)), 8, pa.int8(), 0)
@given(st.lists(st.integers(0, 10_000), min_size=4, max_size=12), st.sampled_from(COUNTS), st.sampled_from(TYPES), st.integers(0, 2))
def test_pages_encoded_together_are_those_of_the_general_writer(seeds: Any, count: int, kind: pa.DataType, offset: int) -> None:
    columns = [(f, [column(seed, count + offset, kind).slice(offset)]) for f, seed in zip(schema_of(*[kind] * len(seeds)).fields, seeds)]
    for grammar in GRAMMARS.values():
        for (field, (array,)), page in zip(columns, encode_together(columns, grammar), strict=True):
            if page is not None:
                assert_is_general(page, field, array, grammar)


@example(list(range(20)), 100, 0, True)
@example(list(range(20)), 3, 1, True)
@example(list(range(20)), 512, 3, False)
@given(st.lists(st.integers(0, 10_000), min_size=4, max_size=12), st.sampled_from(COUNTS), st.integers(0, 11), st.booleans())
def test_columns_with_nulls_and_texts_are_those_of_the_general_writer(seeds: Any, count: int, kind: int, nulls: bool) -> None:
    t = (*TYPES, pa.string(), pa.large_string(), pa.binary(), pa.large_binary())[kind - 4]
    arrays = [(column if kind > 3 else texts)(seed, count, t) for seed in seeds]
    if nulls:
        arrays = [with_nulls(array, seed) for array, seed in zip(arrays, seeds)]
    columns = [(f, [array]) for f, array in zip(schema_of(*[t] * len(seeds)).fields, arrays)]
    for grammar in GRAMMARS.values():
        for (field, (array,)), page in zip(columns, encode_together(columns, grammar), strict=True):
            if page is not None:
                assert_is_general(page, field, array, grammar)


def test_most_columns_of_distinct_values_are_encoded_together() -> None:
    for t in (pa.int64(), pa.float32(), pa.string(), pa.large_binary()):
        arrays = [pa.array([str(i * 7919 % 1009) for i in range(j, j + 100)]).cast(pa.string()).cast(t) for j in range(9)]
        for some in (arrays, [with_nulls(array, 4 * j) for j, array in enumerate(arrays)]):
            columns = [(f, [array]) for f, array in zip(schema_of(*[t] * 9).fields, some)]
            for grammar in GRAMMARS.values():
                if grammar.packed_parts and (some is not arrays or not pa.types.is_primitive(t)):
                    continue  # 2.3 has more encodings of nulls and of offsets
                assert all(page is not None for page in encode_together(columns, grammar)), t


def test_columns_with_options_or_only_nulls_are_not_encoded_together() -> None:
    (grammar, *_) = GRAMMARS.values()
    fields = schema_of(*[pa.int64()] * 9).fields
    option = from_arrow(pa.schema([pa.field("o", pa.int64(), metadata={"lance-encoding:compression": "zstd"})])).fields[0]
    plain = [(field, [pa.array(range(20 + i, 40 + i), pa.int64())]) for i, field in enumerate(fields[:4])]
    others = [
        (fields[4], [pa.nulls(20, pa.int64())]),
        (fields[5], [pa.array(range(10)), pa.array(range(10))]),
        (fields[6], [pa.array(range(513))]),
        (fields[7], []),
        (option, [pa.array(range(20))]),
    ]
    pages = encode_together(plain + others, grammar)
    assert [page is not None for page in pages] == [True] * 4 + [False] * 5
    assert encode_together(plain[:3], grammar) == [None] * 3
