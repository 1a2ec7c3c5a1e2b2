"""Conversion of batches: exactly the promised schema and the same values, or an error."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from lance_spark.errors import CorruptFileError, SchemaMismatchError, UnsupportedFeatureError
from lance_spark.schema.logical_types import EXTENSION_NAME
from lance_spark.spark.columns.batches import Conversion
from lance_spark.spark.columns.types import promised, to_spark
from lance_spark.spark.workers.version import SPARK_VERSION
from tests.sample import examples


def convert(batch: pa.RecordBatch, truncate: bool = False) -> pa.RecordBatch:
    out = Conversion(promised(to_spark(batch.schema)), truncate).apply(batch)
    out.validate(full=True)
    return out


def one(array: pa.Array, truncate: bool = False, **field: Any) -> pa.Array:
    """Convert the array as the only column of a batch."""
    return convert(pa.record_batch([array], pa.schema([pa.field("c", array.type, **field)])), truncate).column(0)


UTC = dt.UTC
VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.null(), [None, None]),
    (pa.bool_(), [True, None, False]),
    (pa.int8(), [-128, None, 127]),
    (pa.int64(), [-(2**63), None, 2**63 - 1]),
    (pa.uint8(), [0, None, 255]),
    (pa.uint16(), [0, None, 2**16 - 1]),
    (pa.uint32(), [0, None, 2**32 - 1]),
    (pa.float32(), [1.5, None, float("inf")]),
    (pa.float64(), [1e300, None, -0.0]),
    (pa.string(), ["", None, "ä\N{SNOWMAN}"]),
    (pa.large_string(), ["", None, "ä"]),
    (pa.string_view(), ["a" * 20, None, ""]),
    (pa.binary(), [b"", None, b"\0\xff"]),
    (pa.large_binary(), [b"x", None]),
    (pa.binary(3), [b"abc", None]),
    (pa.decimal128(5, 2), [Decimal("1.25"), None, Decimal("-999.99")]),
    (pa.decimal256(38, 0), [Decimal(10**38 - 1), None]),
    (pa.date32(), [dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
    (pa.date64(), [dt.date(1900, 2, 1), None, dt.date(2024, 2, 29)]),
    *((t, [dt.time(23, 59, 59), None]) for t in (pa.time32("s"), pa.time64("us")) if SPARK_VERSION >= (4, 1)),
    (pa.duration("s"), [dt.timedelta(days=-1), None]),
    (pa.duration("us"), [dt.timedelta(microseconds=-1), None]),
    (pa.timestamp("s"), [dt.datetime(1900, 1, 1), None]),
    (pa.timestamp("us"), [dt.datetime(1, 1, 1), None, dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]),
    (pa.dictionary(pa.int8(), pa.large_string()), ["a", None, "a", "b"]),
    (pa.dictionary(pa.uint32(), pa.uint16()), [1, None, 65535]),
    (pa.list_(pa.uint8()), [[1, None], None, [], [255]]),
    (pa.large_list(pa.large_string()), [["a", None], None, []]),
    (pa.list_(pa.int32(), 2), [[1, 2], None, [3, None]]),
    (pa.list_(pa.list_(pa.uint8(), 2), 2), [[[1, 2], [3, 4]], None, [[5, 6], None]]),
    (pa.map_(pa.large_string(), pa.uint8()), [[("a", 1), ("b", None)], None, []]),
    (pa.map_(pa.int8(), pa.list_(pa.uint16())), [[(1, [7])], [], None, [(2, None)]]),
    (pa.struct([("a", pa.uint8()), ("b", pa.large_string())]), [{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
    (pa.struct([("s", pa.struct([("l", pa.list_(pa.uint8()))]))]), [{"s": {"l": [1]}}, None, {"s": None}, {"s": {"l": None}}]),
    (pa.list_(pa.struct([("t", pa.date64())])), [[{"t": dt.date(2000, 1, 1)}, None], None, []]),
    (pa.struct([]), [{}, None, {}]),
]


@pytest.mark.parametrize(("t", "values"), VALUES, ids=[str(t) for t, _ in VALUES])
def test_values_are_kept_in_whole_arrays_and_in_slices(t: pa.DataType, values: list[Any]) -> None:
    array = pa.array(values * 3, t)
    assert one(array).to_pylist() == values * 3
    for start in range(len(values)):
        assert one(array.slice(start, len(values) + 2)).to_pylist() == (values * 3)[start : start + len(values) + 2]
    assert one(array.slice(1, 0)).to_pylist() == []


def test_unsigned_64_is_a_decimal() -> None:
    assert one(pa.array([2**64 - 1, None, 0], pa.uint64())).to_pylist() == [Decimal(2**64 - 1), None, Decimal(0)]


def test_instants_are_kept_and_their_zone_is_utc() -> None:
    instant = dt.datetime(2024, 7, 1, 12, tzinfo=UTC)
    for unit in ("s", "ms", "us", "ns"):
        out = one(pa.array([instant, None], pa.timestamp(unit, "America/New_York")))
        assert out.type == pa.timestamp("us", "UTC")
        assert out.to_pylist() == [instant, None]


@given(some.lists(some.none() | some.floats(width=16), min_size=1, max_size=20), some.integers(0, 3))
def test_half_floats_keep_their_values(values: list[float | None], start: int) -> None:
    array = pa.array([None if v is None else np.float16(v) for v in values], pa.float16())[start:]
    for got, want in zip(one(array).to_pylist(), values[start:], strict=True):
        assert got == want or (got is not None and want is not None and math.isnan(got) and math.isnan(want))


@given(some.lists(some.none() | some.integers(0, 2**16 - 1), min_size=1, max_size=20), some.integers(0, 3))
def test_brain_floats_are_the_upper_halves_of_floats(values: list[int | None], start: int) -> None:
    array = pa.array([None if v is None else v.to_bytes(2, "little") for v in values], pa.binary(2))[start:]
    out = one(array, metadata={EXTENSION_NAME: b"lance.bfloat16"})
    assert out.is_null().to_pylist() == [v is None for v in values[start:]]
    bits = out.drop_null().to_numpy().view("<u4")
    assert bits.tolist() == [v << 16 for v in values[start:] if v is not None]


def test_vectors_of_brain_floats() -> None:
    item = pa.field("item", pa.binary(2), metadata={EXTENSION_NAME: b"lance.bfloat16"})
    array = pa.array([[b"\0\0", b"\x80\x3f"], None, [b"\0\x40", None]], pa.list_(item, 2))
    assert one(array[1:]).to_pylist() == [None, [2.0, None]]
    assert one(array).to_pylist() == [[0.0, 1.0], None, [2.0, None]]


def test_extension_types_are_converted_to_their_storage() -> None:
    assert one(pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, None], pa.binary(16)))).to_pylist() == [b"0" * 16, None]
    assert one(pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a":1}', None]))).to_pylist() == ['{"a":1}', None]


def test_a_date_in_milliseconds_is_the_day_that_it_lies_in() -> None:
    array = pa.array([-1, 0, 86_400_001, None], pa.int64()).view(pa.date64())
    assert one(array).to_pylist() == [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(1970, 1, 2), None]


NANOSECONDS = [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.duration("ns")]


@pytest.mark.parametrize("t", NANOSECONDS, ids=str)
def test_nanoseconds_are_an_error_unless_truncated(t: pa.DataType) -> None:
    exact = pa.array([-2000, 3000, None], pa.int64()).view(t)
    assert one(exact).view(pa.int64()).to_pylist() == [-2, 3, None]
    odd = pa.array([-1, 1999, None], pa.int64()).view(t)
    with pytest.raises(UnsupportedFeatureError, match=r"column 'c' .*nanoseconds=truncate"):
        one(odd)
    assert one(odd, truncate=True).view(pa.int64()).to_pylist() == [-1, 1, None]


def test_errors_of_nested_nanoseconds_name_the_path() -> None:
    array = pa.array([[{"t": 1}]], pa.list_(pa.struct([("t", pa.timestamp("ns"))])))
    with pytest.raises(UnsupportedFeatureError, match=r"column 'c\.element\.t'"):
        one(array)


@pytest.mark.skipif(SPARK_VERSION < (4, 1), reason="Spark has no times of day")
def test_times_keep_their_nanoseconds() -> None:
    array = pa.array([1, None], pa.int64()).view(pa.time64("ns"))
    assert one(array).view(pa.int64()).to_pylist() == [1, None]


def test_a_value_out_of_sparks_range_is_an_error_with_the_column() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"column 'c'.*the option `columns`"):
        one(pa.array([2**60], pa.int64()).view(pa.timestamp("s")))


def test_nulls_in_a_non_nullable_column_are_an_error() -> None:
    with pytest.raises(CorruptFileError, match="column 'c' has nulls"):
        one(pa.array([1, None]), nullable=False)


def test_columns_and_children_are_found_by_name_and_may_be_left_out() -> None:
    batch = pa.record_batch(
        {"B": pa.array([1, 2]), "a": pa.array([{"x": 1, "Y": "u", "z": 2.0}, None]), "c": pa.array(["no", "no"])},
    )
    wanted = pa.schema([("a", pa.struct([("y", pa.string()), ("x", pa.int64())])), ("b", pa.int64())])
    out = Conversion(wanted).apply(batch)
    assert out.to_pylist() == [{"a": {"y": "u", "x": 1}, "b": 1}, {"a": None, "b": 2}]
    assert out.schema == wanted
    with pytest.raises(SchemaMismatchError, match="no column 'd'"):
        Conversion(pa.schema([("d", pa.int64())])).apply(batch)


def test_the_schema_is_exactly_the_promised_one() -> None:
    item = pa.field("item", pa.struct([pa.field("m", pa.map_("int8", pa.field("v", pa.string(), False)), False)]), False)
    batch = pa.record_batch([pa.array([[{"m": [(1, "x")]}]], pa.list_(item))], pa.schema([pa.field("l", pa.list_(item), False)]))
    out = convert(batch)
    assert out.schema == promised(to_spark(batch.schema))
    assert str(out.schema) == str(promised(to_spark(batch.schema)))


@pytest.mark.parametrize("t", [pa.int32(), pa.string(), pa.list_(pa.float32(), 4), pa.struct([("x", pa.int64())])], ids=str)
def test_bytes_that_stay_the_same_are_not_copied(t: pa.DataType) -> None:
    value = {pa.int32(): 1, pa.string(): "x" * 10}.get(t, [1.0] * 4 if pa.types.is_fixed_size_list(t) else {"x": 1})
    array = pa.array([value] * 1000, t)
    here = {b.address for b in array.buffers() if b is not None and b.size > 4100}
    assert {b.address for b in one(array).buffers() if b is not None} >= here
    assert t == pa.int32() or here


@settings(max_examples=examples(50))
@given(some.data())
def test_any_slice_of_nested_lists_is_kept(data: some.DataObject) -> None:
    items = some.none() | some.lists(some.none() | some.integers(0, 255), max_size=4)
    values = data.draw(some.lists(some.none() | some.lists(items, max_size=4), max_size=12))
    start, length = data.draw(some.integers(0, 12)), data.draw(some.integers(0, 12))
    array = pa.array(values, pa.list_(pa.large_list(pa.uint8())))[start:][:length]
    assert one(array).to_pylist() == values[start:][:length]
