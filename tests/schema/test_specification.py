"""The types and field ids of the schema page, row by row: both implementations write the same, and read each other's values."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lance_spark import Dataset
from lance_spark.schema.field_messages import serialise_fields

_D = Decimal("12345678.90")
_MOMENT = datetime(2024, 2, 29, 1, 2, 3)
PRIMITIVE: list[tuple[str, pa.DataType, list[Any]]] = [
    ("null", pa.null(), [None]),
    ("bool", pa.bool_(), [True, False]),
    ("int8", pa.int8(), [-128, 127]),
    ("uint8", pa.uint8(), [0, 255]),
    ("int16", pa.int16(), [-(2**15), 2**15 - 1]),
    ("uint16", pa.uint16(), [2**16 - 1]),
    ("int32", pa.int32(), [-(2**31), 2**31 - 1]),
    ("uint32", pa.uint32(), [2**32 - 1]),
    ("int64", pa.int64(), [-(2**63), 2**63 - 1]),
    ("uint64", pa.uint64(), [2**64 - 1]),
]
FLOATING: list[tuple[str, pa.DataType, list[Any]]] = [
    ("halffloat", pa.float16(), [1.5, -2.0]),
    ("float", pa.float32(), [1.5, float("inf")]),
    ("double", pa.float64(), [1.5, -0.1]),
]
TEXT: list[tuple[str, pa.DataType, list[Any]]] = [
    ("string", pa.string(), ["", "é漢字"]),
    ("binary", pa.binary(), [b"", b"\0\xff"]),
    ("large_string", pa.large_string(), ["a"]),
    ("large_binary", pa.large_binary(), [b"a"]),
]
DECIMAL: list[tuple[str, pa.DataType, list[Any]]] = [
    ("decimal:128:10:2", pa.decimal128(10, 2), [_D, -_D]),
    ("decimal:128:38:38", pa.decimal128(38, 38), [Decimal("0.5")]),
    ("decimal:256:20:5", pa.decimal256(20, 5), [_D]),
    ("decimal:256:76:0", pa.decimal256(76, 0), [Decimal(10) ** 75]),
]
TIMES: list[tuple[str, pa.DataType, list[Any]]] = [
    ("date32:day", pa.date32(), [date(1969, 12, 31), date(2025, 12, 10)]),
    ("date64:ms", pa.date64(), [date(2025, 12, 10)]),
    ("time32:s", pa.time32("s"), [time(23, 59, 59)]),
    ("time32:ms", pa.time32("ms"), [time(23, 59, 59, 999000)]),
    ("time64:us", pa.time64("us"), [time(23, 59, 59, 999999)]),
    ("time64:ns", pa.time64("ns"), [time(1, 2, 3)]),
    ("duration:s", pa.duration("s"), [timedelta(seconds=-5)]),
    ("duration:ms", pa.duration("ms"), [timedelta(milliseconds=5)]),
    ("duration:us", pa.duration("us"), [timedelta(microseconds=5)]),
    ("duration:ns", pa.duration("ns"), [timedelta(microseconds=5)]),
]
MOMENTS: list[tuple[str, pa.DataType, list[Any]]] = [
    *((f"timestamp:{unit}:-", pa.timestamp(unit), [_MOMENT]) for unit in ("s", "ms", "us", "ns")),
    ("timestamp:us:UTC", pa.timestamp("us", "UTC"), [1]),
    ("timestamp:ms:America/New_York", pa.timestamp("ms", "America/New_York"), [1]),
    ("timestamp:us:+05:30", pa.timestamp("us", "+05:30"), [1]),
]
_XY = pa.struct([("x", pa.int64()), ("y", pa.string())])
STRUCTS = [("struct", _XY, [{"x": 1, "y": "a"}, None, {"x": None, "y": None}])]
LISTS: list[tuple[str, pa.DataType, list[Any]]] = [
    ("list", pa.list_(pa.int32()), [[1, None], [], None]),
    ("list.struct", pa.list_(_XY), [[{"x": 1, "y": "a"}], None]),
    ("large_list", pa.large_list(pa.string()), [["a"], None]),
    ("large_list.struct", pa.large_list(_XY), [[{"x": 1, "y": "a"}]]),
]
VECTORS: list[tuple[str, pa.DataType, list[Any]]] = [
    ("fixed_size_list:float:4", pa.list_(pa.float32(), 4), [[1.0, 2.0, 3.0, 4.0]]),
    ("fixed_size_list:int32:2", pa.list_(pa.int32(), 2), [[1, 2], None]),
]
FIXED = [("fixed_size_binary:16", pa.binary(16), [b"0123456789abcdef"]), ("fixed_size_binary:32", pa.binary(32), [b"x" * 32])]
DICTIONARIES: list[tuple[str, pa.DataType, list[Any]]] = [
    ("dict:string:int16:false", pa.dictionary(pa.int16(), pa.string()), ["a", "b", "a", None]),
    ("dict:large_string:int32:false", pa.dictionary(pa.int32(), pa.large_string()), ["a"]),
]
MAPS = [("map", pa.map_(pa.string(), pa.int32()), [[("a", 1)], [], None])]
CASES = [*PRIMITIVE, *FLOATING, *TEXT, *DECIMAL, *TIMES, *MOMENTS, *STRUCTS, *LISTS, *VECTORS, *FIXED, *DICTIONARIES, *MAPS]


def logical(table: Dataset, name: str = "c") -> str:
    return table.snapshot.manifest.schema.resolve(name)[-1].logical_type


def check(case: tuple[str, pa.DataType, list[Any]], path: Path) -> None:
    """Both implementations write the type of the document, read the other's values, and append to the other's table."""
    expected, t, values = case
    data = pa.table({"n": pa.array(range(len(values))), "c": pa.array(values, t)})
    for writer in ("pylance", "ours"):
        uri = path / writer
        if writer == "pylance":
            lance.write_dataset(data, uri, data_storage_version="2.2")
            Dataset.write(uri, data, mode="append")
        else:
            Dataset.write(uri, data)
            lance.write_dataset(data, uri, mode="append")
        assert logical(Dataset.open(uri)) == expected
        theirs = lance.dataset(uri)
        theirs.validate()
        ours = Dataset.open(uri).to_table()
        assert theirs.schema.field("c").type == ours.schema.field("c").type == t
        twice = pa.concat_tables([data, data]).to_pylist()
        assert theirs.to_table().to_pylist() == ours.to_pylist() == twice


def named(cases: list[tuple[str, pa.DataType, list[Any]]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=[name for name, _, _ in cases])


@pytest.mark.spec("schema.md", "Primitive Types")
@named(PRIMITIVE)
def test_primitive_types(case: Any, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.spec("schema.md", "Floating Point Types")
@named(FLOATING)
def test_floating_point_types(case: Any, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.spec("schema.md", "String and Binary Types")
@named(TEXT)
def test_string_and_binary_types(case: Any, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.spec("schema.md", "Decimal Types")
@named(DECIMAL)
def test_decimal_types(case: Any, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.spec("schema.md", "Date and Time Types")
@named(TIMES)
def test_date_and_time_types(case: Any, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.spec("schema.md", "Timestamp Types")
@named(MOMENTS)
def test_timestamp_types(case: Any, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.spec("schema.md", "Struct Type")
@named(STRUCTS)
def test_struct_type(case: Any, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.spec("schema.md", "List Types")
@named(LISTS)
def test_list_types(case: Any, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.spec("schema.md", "Fixed-Size List Types")
@named(VECTORS)
def test_fixed_size_list_types(case: Any, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.spec("schema.md", "Fixed-Size Binary Type")
@named(FIXED)
def test_fixed_size_binary_type(case: Any, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.spec("schema.md", "Dictionary Type")
@named(DICTIONARIES)
def test_dictionary_type(case: Any, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.spec("schema.md", "Map Type")
@named(MAPS)
def test_map_type(case: Any, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.spec("schema.md", "Type Conversion Reference")
def test_a_table_of_all_types_is_appended_to_by_both(tmp_path: Path) -> None:
    data = pa.table({name.replace(".", "_"): pa.array(values[:1], t) for name, t, values in CASES})
    lance.write_dataset(data, tmp_path / "t", data_storage_version="2.2")
    table = Dataset.open(tmp_path / "t").insert(data)
    assert [f.logical_type for f in table.snapshot.manifest.schema.fields] == [name for name, _, _ in CASES]
    assert lance.write_dataset(data, tmp_path / "t", mode="append").count_rows() == 3
    assert Dataset.open(tmp_path / "t").to_table().to_pylist() == data.to_pylist() * 3


@pytest.mark.spec("schema.md", "Dictionary Type")
@pytest.mark.parametrize("index", [pa.int8(), pa.int32()], ids=str)
def test_ordered_dictionaries_are_written_as_unordered_ones(index: pa.DataType, tmp_path: Path) -> None:
    data = pa.table({"c": pa.array(["a", "b", None, "a"], pa.dictionary(index, pa.string(), ordered=True))})
    table = Dataset.write(tmp_path / "t", data).insert(data)
    assert logical(table) == f"dict:string:{index}:false"
    lance.write_dataset(data, tmp_path / "t", mode="append")
    assert Dataset.open(tmp_path / "t").insert(data).to_table()["c"].to_pylist() == ["a", "b", None, "a"] * 4
    assert lance.dataset(tmp_path / "t").to_table()["c"].to_pylist() == ["a", "b", None, "a"] * 4


VIEWS = {"string": (pa.string_view(), pa.string(), ["a", "é", None]), "binary": (pa.binary_view(), pa.binary(), [b"a", None])}


@pytest.mark.spec("schema.md", "String and Binary Types")
@pytest.mark.parametrize("expected", VIEWS)
def test_views_are_written_as_the_types_that_they_are_views_of(expected: str, tmp_path: Path) -> None:
    view, stored, values = VIEWS[expected]
    data = pa.table({"c": pa.array(values, view)})
    table = Dataset.write(tmp_path / "t", data).insert(data)
    assert (logical(table), table.schema.field("c").type) == (expected, stored)
    lance.write_dataset(data.cast(pa.schema([("c", stored)])), tmp_path / "t", mode="append")
    for opened in (lance.dataset(tmp_path / "t"), Dataset.open(tmp_path / "t")):
        assert opened.to_table().to_pylist() == data.to_pylist() * 3


@pytest.mark.spec("schema.md", "Blob Type")
@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_blobs_are_read_by_both(version: str, tmp_path: Path) -> None:
    field = pa.field("c", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    data = pa.Table.from_arrays([pa.array([b"x" * 100_000, b"", None], pa.large_binary())], schema=pa.schema([field]))
    lance.write_dataset(data, tmp_path / "theirs", data_storage_version=version)
    Dataset.write(tmp_path / "ours", data, data_storage_version=version)
    for path in (tmp_path / "theirs", tmp_path / "ours"):
        assert [row["c"] for row in Dataset.open(path).to_table().to_pylist()] == data["c"].to_pylist()
        blobs = lance.dataset(path).take_blobs("c", indices=[0])
        assert blobs[0].readall() == b"x" * 100_000


@pytest.mark.spec("schema.md", "BFloat16 Type")
@pytest.mark.spec("schema.md", "Arrow Extension Type Metadata")
def test_vectors_of_bfloat16_have_their_own_logical_type(tmp_path: Path) -> None:
    extension = {"ARROW:extension:name": "lance.bfloat16", "ARROW:extension:metadata": ""}
    t = pa.list_(pa.field("item", pa.binary(2), True, extension), 2)
    items = pa.array([b"\x80\x3f", b"\x00\x40"] * 2, pa.binary(2))
    data = pa.table({"c": pa.FixedSizeListArray.from_arrays(items, type=t)})
    lance.write_dataset(data, tmp_path / "theirs")
    table = Dataset.write(tmp_path / "ours", data)
    assert logical(table) == logical(Dataset.open(tmp_path / "theirs")) == "fixed_size_list:lance.bfloat16:2"
    lance.dataset(tmp_path / "ours").validate()
    own, theirs = (Dataset.open(tmp_path / name).to_table()["c"].to_pylist() for name in ("ours", "theirs"))
    assert own == theirs


EXAMPLE = pa.schema(
    [("a", pa.int32()), ("b", pa.int32()), ("c", pa.struct([("x", pa.int32()), ("y", pa.int32()), ("z", pa.int32())])), ("d", pa.int32())]
)


@pytest.mark.spec("schema.md", "Field ID Assignment")
@pytest.mark.spec("table.md", "Schema & Fields")
def test_ids_are_given_depth_first_and_then_by_ones(tmp_path: Path) -> None:
    row = {"a": 1, "b": 2, "c": {"x": 3, "y": 4, "z": 5}, "d": 6}
    table = Dataset.write(tmp_path / "t", pa.Table.from_pylist([row], EXAMPLE))
    messages = serialise_fields(table.snapshot.manifest.schema)
    assert [(m.name, m.id, m.parent_id) for m in messages] == [
        ("a", 0, -1), ("b", 1, -1), ("c", 2, -1), ("x", 3, 2), ("y", 4, 2), ("z", 5, 2), ("d", 6, -1),
    ]  # fmt: skip
    later = table.drop_columns(["d"]).add_columns({"e": "a + 1"}).add_columns(pa.field("f", pa.int32()))
    assert {f.name: f.id for f in later.snapshot.manifest.schema.fields} == {"a": 0, "b": 1, "c": 2, "e": 7, "f": 8}
    lance.dataset(tmp_path / "t").validate()
