"""Conversion of data to a table's columns: by name, with unchanged values or an error."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.errors import SchemaMismatchError
from lance_spark.schema.schema import from_arrow
from lance_spark.table.write.conform import check_fits, conform


def conformed(array: pa.Array, target: pa.DataType, nullable: bool = True) -> pa.Array:
    table = from_arrow(pa.schema([pa.field("x", target, nullable)]))
    batch = pa.record_batch([array], names=["x"])
    check_fits(batch.schema, table)
    return conform(batch, table).column(0)


FITTING = {
    "int to uint8": (pa.array([0, 255, None]), pa.uint8(), [0, 255, None]),
    "int to float": (pa.array([1, None]), pa.float64(), [1.0, None]),
    "int to float16": (pa.array([1, None]), pa.float16(), [1.0, None]),
    "int to decimal": (pa.array([1, None]), pa.decimal128(30, 2), [Decimal("1.00"), None]),
    "double to float16": (pa.array([0.5, float("inf"), None]), pa.float16(), [np.float16(0.5), np.float16("inf"), None]),
    "decimal rescaled": (pa.array([Decimal("1.50")]), pa.decimal128(10, 1), [Decimal("1.5")]),
    "string to large_string": (pa.array(["a", None]), pa.large_string(), ["a", None]),
    "string_view": (pa.array(["a", None], pa.string_view()), pa.string(), ["a", None]),
    "string to dictionary": (pa.array(["a", "b", "a", None]), pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a", None]),
    "dictionary to string": (pa.array(["a", None]).dictionary_encode(), pa.string(), ["a", None]),
    "dictionary widened": (pa.array(["a", None]).dictionary_encode(), pa.dictionary(pa.int64(), pa.large_string()), ["a", None]),
    "binary to fixed": (pa.array([b"ab", None]), pa.binary(2), [b"ab", None]),
    "fixed to large binary": (pa.array([b"ab", None], pa.binary(2)), pa.large_binary(), [b"ab", None]),
    "decimal to float": (pa.array([Decimal("2.50"), None]), pa.float32(), [2.5, None]),
    "decimal to half": (pa.array([Decimal("2.50"), None]), pa.float16(), [2.5, None]),
    "seconds": (pa.array([1, None], pa.timestamp("us")), pa.timestamp("ns"), None),
    "zones": (pa.array([1], pa.timestamp("us", "UTC")), pa.timestamp("us", "Europe/Berlin"), None),
    "nulls": (pa.nulls(2), pa.list_(pa.int32()), [None, None]),
    "list to vector": (pa.array([[1.0, 2.0], None, [3.0, 4.0]]), pa.list_(pa.float32(), 2), [[1.0, 2.0], None, [3.0, 4.0]]),
    "vector to list": (pa.array([[1.0, 2.0], None], pa.list_(pa.float32(), 2)), pa.list_(pa.float64()), [[1.0, 2.0], None]),
    "vector of another item": (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), pa.list_(pa.uint8(), 2), [[1, 2], None]),
    "list to large_list": (pa.array([[1], None, []]), pa.large_list(pa.int32()), [[1], None, []]),
    "large_list to list": (pa.array([[1], None, []], pa.large_list(pa.int64())), pa.list_(pa.int32()), [[1], None, []]),
    "nested vectors": (pa.array([[[1.0], [2.0]], None]), pa.list_(pa.list_(pa.float32(), 1), 2), [[[1.0], [2.0]], None]),
    "struct by name": (
        pa.array([{"B": 1, "a": "x"}, None]),
        pa.struct([("a", pa.large_string()), ("b", pa.int8()), ("c", pa.int8())]),
        [{"a": "x", "b": 1, "c": None}, None],
    ),
    "list of structs": (
        pa.array([[{"b": 1}], None]),
        pa.list_(pa.struct([("a", pa.string()), ("b", pa.int8())])),
        [[{"a": None, "b": 1}], None],
    ),
    "map": (
        pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        pa.map_(pa.large_string(), pa.int8()),
        [[("k", 1)], None],
    ),
}


@pytest.mark.parametrize(("data", "target", "expected"), FITTING.values(), ids=FITTING.keys())
@pytest.mark.parametrize("sliced", [False, True], ids=["whole", "slice"])
def test_values_that_fit_stay_the_same(data: pa.Array, target: pa.DataType, expected: list[object] | None, sliced: bool) -> None:
    if sliced:
        data = pa.concat_arrays([data, data, data]).slice(len(data), len(data))
    got = conformed(data, target)
    got.validate(full=True)
    assert got.type == from_arrow(pa.schema([("x", target)])).fields[0].type
    assert got.to_pylist() == (expected if expected is not None else data.cast(target).to_pylist())


NOT_FITTING = {
    "too large": (pa.array([300]), pa.uint8()),
    "negative": (pa.array([-1]), pa.uint64()),
    "not exact": (pa.array([2**53 + 1]), pa.float64()),
    "infinite": (pa.array([1e300]), pa.float32()),
    "infinite half": (pa.array([1e5]), pa.float16()),
    "infinite decimal": (pa.array([Decimal("70000.5")]), pa.float16()),
    "digits": (pa.array([Decimal("12345.6")]), pa.decimal128(5, 1)),
    "fraction": (pa.array([Decimal("1.25")]), pa.decimal128(10, 1)),
    "time": (pa.array([1], pa.timestamp("us")), pa.timestamp("s")),
    "bytes": (pa.array([b"abc"]), pa.binary(2)),
    "items": (pa.array([[1.0, 2.0], [1.0]]), pa.list_(pa.float32(), 2)),
    "keys": (pa.array([str(i) for i in range(300)]), pa.dictionary(pa.int8(), pa.string())),
    "nested": (pa.array([[{"a": 300}]]), pa.list_(pa.struct([("a", pa.uint8())]))),
}


@pytest.mark.parametrize(("data", "target"), NOT_FITTING.values(), ids=NOT_FITTING.keys())
def test_values_that_do_not_fit_are_errors_that_name_the_column(data: pa.Array, target: pa.DataType) -> None:
    with pytest.raises(SchemaMismatchError, match="column 'x"):
        conformed(data, target)


DIFFERENT = {
    "text for a number": (pa.string(), pa.int64()),
    "number for text": (pa.int64(), pa.string()),
    "float for an integer": (pa.float64(), pa.int64()),
    "bool for an integer": (pa.bool_(), pa.int64()),
    "an instant for a local time": (pa.timestamp("us", "UTC"), pa.timestamp("us")),
    "bytes for text": (pa.binary(), pa.string()),
    "vectors of another size": (pa.list_(pa.float32(), 3), pa.list_(pa.float32(), 2)),
    "a struct for a map": (pa.struct([("a", pa.int8())]), pa.map_(pa.string(), pa.int8())),
    "a date for a time": (pa.date32(), pa.timestamp("us")),
}


@pytest.mark.parametrize(("data", "target"), DIFFERENT.values(), ids=DIFFERENT.keys())
def test_incompatible_types_are_refused_before_anything_is_written(data: pa.DataType, target: pa.DataType) -> None:
    with pytest.raises(SchemaMismatchError, match="'x'"):
        check_fits(pa.schema([("x", data)]), from_arrow(pa.schema([("x", target)])))


def test_all_differences_are_listed() -> None:
    table = from_arrow(
        pa.schema([pa.field("id", pa.int64(), False), pa.field("s", pa.struct([("a", pa.int8()), ("b", pa.int8())])), ("t", pa.string())])
    )
    data = pa.schema(
        [
            ("S", pa.struct([("a", pa.string()), ("zz", pa.int8())])),
            ("extra", pa.int8()),
            ("T", pa.int8()),
            ("u", pa.int8()),
            ("U", pa.int8()),
        ]
    )
    with pytest.raises(SchemaMismatchError) as e:
        check_fits(data, table)
    for part in (
        "'id' is missing",
        "'s'.'a' is string",
        "'s'.'zz' (int8) is not in",
        "'extra' (int8) is not",
        "'t' is int8",
        "'U' is duplicated",
    ):
        assert part in str(e.value)
    assert "'U' (int8)" not in str(e.value)


def test_nulls_are_refused_where_the_table_forbids_them() -> None:
    assert conformed(pa.array([1, 2]), pa.int32(), nullable=False).to_pylist() == [1, 2]
    with pytest.raises(SchemaMismatchError, match="'x' is not nullable"):
        conformed(pa.array([1, None]), pa.int32(), nullable=False)
    inner = pa.struct([pa.field("a", pa.int8(), nullable=False)])
    assert conformed(pa.array([{"a": 1}, None]), inner).to_pylist() == [{"a": 1}, None]
    with pytest.raises(SchemaMismatchError, match=r"'x\.a' is not nullable"):
        conformed(pa.array([{"a": 1}, {"a": None}]), inner)
    items = pa.list_(pa.field("item", pa.int8(), nullable=False))
    assert conformed(pa.array([[1], None, []]), items).to_pylist() == [[1], None, []]
    with pytest.raises(SchemaMismatchError, match="is not nullable"):
        conformed(pa.array([[1, None]]), items)


def test_names_match_exactly_before_they_match_without_case() -> None:
    table = from_arrow(pa.schema([("a", pa.int64()), ("A", pa.int64())]))
    got = conform(pa.record_batch([pa.array([1]), pa.array([2])], names=["A", "a"]), table)
    assert got.to_pydict() == {"a": [2], "A": [1]}


@pytest.mark.parametrize(
    ("array", "plain"),
    [
        (pa.array(["a", None, "long enough to be outside of the view"], pa.string_view()), pa.string()),
        (pa.array([b"a", None], pa.binary_view()), pa.binary()),
        (pa.array([[1], None, [2, 3]], pa.list_view(pa.int32())), pa.list_(pa.int32())),
        (pa.array([["a"], None, []], pa.large_list_view(pa.string_view())), pa.large_list(pa.string())),
        (pa.array([{"s": "a"}, None], pa.struct([("s", pa.string_view())])), pa.struct([("s", pa.string())])),
        (
            pa.array([[{"s": ["a"]}]], pa.list_(pa.struct([("s", pa.list_view(pa.string_view()))]))),
            pa.list_(pa.struct([("s", pa.list_(pa.string()))])),
        ),
    ],
    ids=str,
)
def test_view_types_are_converted(array: pa.Array, plain: pa.DataType) -> None:
    schema = from_arrow(pa.schema([("v", array.type)]))
    check_fits(pa.schema([("v", array.type)]), schema)
    padded = pa.concat_arrays([array[:1], array]).slice(1) if not pa.types.is_nested(array.type) else array
    got = conform(pa.record_batch([padded], names=["v"]), schema)
    assert got.schema.field("v").type == plain
    assert got["v"].to_pylist() == array.to_pylist()


@pytest.mark.parametrize(
    "t",
    [
        pa.struct([pa.field("x", pa.int32(), nullable=False)]),
        pa.list_(pa.field("item", pa.int32(), nullable=False)),
        pa.struct([("l", pa.list_(pa.field("item", pa.struct([pa.field("x", pa.int32(), nullable=False)]))))]),
        pa.map_(pa.string(), pa.field("value", pa.int32(), nullable=False)),
    ],
    ids=str,
)
def test_nulls_within_are_refused_where_the_table_forbids_them(t: pa.DataType) -> None:
    null: Any = {"x": None} if pa.types.is_struct(t) and t.field(0).name == "x" else {"l": [{"x": None}]} if pa.types.is_struct(t) else None
    null = [("k", None)] if pa.types.is_map(t) else [None] if null is None else null
    free = pa.array([null], _all_nullable(t))
    with pytest.raises(SchemaMismatchError, match="is not nullable"):
        conform(pa.record_batch([free], names=["v"]), from_arrow(pa.schema([("v", t)])))


def test_a_null_struct_in_a_map_has_no_fields_that_could_be_null() -> None:
    t = pa.map_(pa.string(), pa.struct([pa.field("x", pa.int32(), nullable=False)]))
    rows = [[("a", {"x": 1}), ("b", None)], None, [], [("c", None)]]
    batch = pa.record_batch([pa.array([[("z", {"x": 0})], *rows], t)], names=["v"])[1:]
    assert conform(batch, from_arrow(pa.schema([("v", t)])))["v"].to_pylist() == rows


def _all_nullable(t: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(t):
        return pa.struct([pa.field(f.name, _all_nullable(f.type)) for f in t])
    if pa.types.is_map(t):
        return pa.map_(t.key_type, t.item_type)
    return pa.list_(_all_nullable(t.value_type)) if pa.types.is_list(t) else t


@given(st.lists(st.none() | st.lists(st.floats(width=32, allow_nan=False), min_size=3, max_size=3)), st.integers(0, 3))
def test_lists_become_vectors_wherever_the_nulls_are(rows: list[list[float] | None], skip: int) -> None:
    array = pa.array([[9.0]] * skip + rows, pa.list_(pa.float32())).slice(skip)
    assert conformed(array, pa.list_(pa.float32(), 3)).to_pylist() == rows


@given(st.lists(st.none() | st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))))
def test_instants_survive_a_change_of_zone_and_unit(values: list[datetime | None]) -> None:
    array = pa.array([v and v.replace(tzinfo=UTC) for v in values], pa.timestamp("us", "UTC"))
    assert conformed(array, pa.timestamp("ns", "Asia/Tokyo")).cast(array.type) == array


@pytest.mark.timeout(30)
def test_the_time_is_linear_in_the_columns() -> None:
    data = pa.schema([(f"c{i}", pa.int64()) for i in range(30_000)])
    check_fits(data, from_arrow(data))
