"""Types: Lance types <-> Spark types."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import types as st

from lance_spark.errors import InvalidOptionError, UnsupportedFeatureError
from lance_spark.metadata.row_columns import ROW_COLUMNS
from lance_spark.schema.logical_types import EXTENSION_NAME, logical_type
from lance_spark.schema.schema import Schema
from lance_spark.spark.columns.types import FIXED_SIZE, promised, stored, to_spark
from lance_spark.spark.workers.version import SPARK_VERSION

TO_SPARK = [
    (pa.null(), "void"),
    (pa.bool_(), "boolean"),
    (pa.int8(), "tinyint"),
    (pa.int16(), "smallint"),
    (pa.int32(), "int"),
    (pa.int64(), "bigint"),
    (pa.uint8(), "smallint"),
    (pa.uint16(), "int"),
    (pa.uint32(), "bigint"),
    (pa.uint64(), "decimal(20,0)"),
    (pa.float16(), "float"),
    (pa.float32(), "float"),
    (pa.float64(), "double"),
    (pa.string(), "string"),
    (pa.large_string(), "string"),
    (pa.string_view(), "string"),
    (pa.json_(), "string"),
    (pa.binary(), "binary"),
    (pa.large_binary(), "binary"),
    (pa.binary_view(), "binary"),
    (pa.binary(16), "binary"),
    (pa.uuid(), "binary"),
    (pa.decimal128(38, 10), "decimal(38,10)"),
    (pa.decimal256(20, 5), "decimal(20,5)"),
    (pa.date32(), "date"),
    (pa.date64(), "date"),
    *((t, "time(6)") for t in (pa.time32("s"), pa.time32("ms"), pa.time64("us")) if SPARK_VERSION >= (4, 1)),
    *((t, "time(9)" if SPARK_VERSION >= (4, 3) else "time(6)") for t in (pa.time64("ns"),) if SPARK_VERSION >= (4, 1)),
    (pa.duration("s"), "interval day to second"),
    (pa.duration("ns"), "interval day to second"),
    (pa.timestamp("s"), "timestamp_ntz"),
    (pa.timestamp("ns"), "timestamp_ntz"),
    (pa.timestamp("ms", "America/New_York"), "timestamp"),
    (pa.timestamp("us", "UTC"), "timestamp"),
    (pa.dictionary(pa.int16(), pa.string()), "string"),
    (pa.list_(pa.int32()), "array<int>"),
    (pa.large_list(pa.uint8()), "array<smallint>"),
    (pa.list_(pa.float16(), 4), "array<float>"),
    (pa.map_(pa.string(), pa.uint16()), "map<string,int>"),
    (pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]), "struct<a:int,b:array<string>>"),
]


@pytest.mark.parametrize(("arrow", "spark"), TO_SPARK, ids=[str(a) for a, _ in TO_SPARK])
def test_every_lance_type_has_its_spark_type(arrow: pa.DataType, spark: str) -> None:
    assert to_spark(pa.schema([("c", arrow)]))["c"].dataType.simpleString() == spark


@pytest.mark.skipif(SPARK_VERSION >= (4, 1), reason="Spark has times of day")
def test_times_are_refused_by_a_spark_that_has_none() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"column 'c': Spark 4\.0.* has no type for a time of day"):
        to_spark(pa.schema([("c", pa.time32("s"))]))


def test_the_page_about_types_has_a_row_for_every_lance_type() -> None:
    page = (Path(__file__).parents[2] / "docs" / "types.md").read_text()
    for arrow, spark in TO_SPARK:
        if isinstance(arrow, pa.BaseExtensionType) or pa.types.is_nested(arrow) or "view" in str(arrow) or pa.types.is_dictionary(arrow):
            continue
        name = re.sub(r"\d+:\d+$", "P:S", re.sub(r"(timestamp:).*", r"\1UNIT", re.sub(r"y:\d+$", "y:N", logical_type(arrow, "c"))))
        rows = [line for line in page.splitlines() if f"`{name}" in line and line.startswith("|")]
        assert any(f"`{re.sub(r'38,10|20,5', 'P,S', spark)}`" in row for row in rows), (name, spark)


def test_brain_floats_are_floats_alone_and_in_vectors() -> None:
    bfloat16 = pa.field("item", pa.binary(2), metadata={EXTENSION_NAME: b"lance.bfloat16"})
    schema = to_spark(pa.schema([bfloat16.with_name("one"), pa.field("many", pa.list_(bfloat16, 3))]))
    assert [f.dataType.simpleString() for f in schema] == ["float", "array<float>"]


@pytest.mark.parametrize(
    "t", [pa.decimal256(39, 0), pa.list_(pa.decimal256(76, 5)), pa.decimal128(10, -2), pa.month_day_nano_interval()], ids=str
)
def test_types_that_spark_lacks_are_refused_with_the_column_and_an_alternative(t: pa.DataType) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"column 'wide.*`columns` option"):
        to_spark(pa.schema([("ok", pa.int8()), ("wide", t)]))


def test_nullability_and_metadata_are_kept() -> None:
    inner = pa.struct([pa.field("x", pa.int32(), False, {"unit": "m", "comment": "metres"})])
    schema = to_spark(
        pa.schema(
            [
                pa.field("id", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true", "ARROW:extension:metadata": "{}"}),
                pa.field("s", inner),
                pa.field("l", pa.list_(pa.field("item", pa.int8(), False))),
            ]
        )
    )
    assert not schema["id"].nullable
    assert schema["id"].metadata == {"lance-schema:unenforced-primary-key": "true"}
    assert schema["s"].nullable
    struct, items = schema["s"].dataType, schema["l"].dataType
    assert isinstance(struct, st.StructType)
    assert isinstance(items, st.ArrayType)
    assert not struct["x"].nullable
    assert struct["x"].metadata == {"comment": "metres"}
    assert not items.containsNull


def test_row_ids_and_addresses_are_long_and_never_null() -> None:
    schema = to_spark(Schema(ROW_COLUMNS).to_arrow())
    assert [f.dataType.simpleString() for f in schema][:6] == ["bigint", "bigint", "int", "bigint", "bigint", "bigint"]
    of_files, of_delta = "file_path:string,file_name:string,row_index:bigint", "row_id:bigint,row_commit_version:bigint"
    assert schema[6].dataType.simpleString() == f"struct<{of_files},{of_delta}>"
    assert [f.name for f in schema if not f.nullable] == ["_rowid", "_rowaddr", "_fragid", "_metadata"]


VECTORS = [
    pa.list_(pa.float32(), 4),
    pa.list_(pa.list_(pa.float32(), 3), 2),
    pa.list_(pa.field("item", pa.list_(pa.float32(), 3))),
    pa.map_(pa.string(), pa.list_(pa.float32(), 3)),
    pa.struct([pa.field("v", pa.list_(pa.float32(), 5))]),
    pa.list_(pa.field("item", pa.struct([pa.field("v", pa.list_(pa.int8(), 2), False)]))),
]


@pytest.mark.parametrize("t", VECTORS, ids=str)
def test_sizes_of_fixed_size_lists_survive_spark(t: pa.DataType) -> None:
    through_spark = st.StructType.fromJson(json.loads(to_spark(pa.schema([("c", t)])).json()))
    assert stored(through_spark, {}).field("c").type == t


def test_the_size_of_a_vector_comes_from_the_option_before_the_metadata() -> None:
    schema = st.StructType([st.StructField("V", st.ArrayType(st.FloatType()), metadata={FIXED_SIZE: 3})])
    assert stored(schema, {}).field("V").type == pa.list_(pa.float32(), 3)
    assert stored(schema, {"v": 4}).field("V").type == pa.list_(pa.float32(), 4)
    assert "metadata" not in str(stored(schema, {"v": 4}))


def test_a_size_for_no_array_column_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match=r"'x\.arrow\.fixed-size-list\.size'"):
        stored(st.StructType([st.StructField("x", st.IntegerType())]), {"x": 4})


@pytest.mark.parametrize("size", [0, -4, "many", 2**31])
def test_an_invalid_size_is_refused(size: object) -> None:
    with pytest.raises(InvalidOptionError, match="column 'v'"):
        stored(st.StructType([st.StructField("v", st.ArrayType(st.FloatType()), metadata={FIXED_SIZE: size})]), {})


def test_what_a_new_table_gets() -> None:
    schema = stored(
        st.StructType(
            [
                st.StructField("t", st.TimestampType()),
                st.StructField("n", st.TimestampNTZType(), False),
                st.StructField("l", st.ArrayType(st.StringType(), False), metadata={"comment": "words", "__private": "x", "ml_attr": 3}),
                st.StructField("d", st.DayTimeIntervalType()),
                st.StructField("c", st.VarcharType(3)),
                st.StructField("nothing", st.NullType()),
            ]
        ),
        {},
    )
    assert schema.field("t").type == pa.timestamp("us", "UTC")
    assert schema.field("n") == pa.field("n", pa.timestamp("us"), False)
    assert schema.field("l").equals(
        pa.field("l", pa.list_(pa.field("item", pa.string(), False)), metadata={"comment": "words"}), check_metadata=True
    )
    assert schema.field("l").type.value_field.name == "item"
    assert schema.field("d").type == pa.duration("us")
    assert schema.field("c").type == pa.string()
    assert schema.field("nothing").type == pa.null()


@pytest.mark.skipif(SPARK_VERSION < (4, 1), reason="Spark has no times of day")
def test_a_new_table_gets_times() -> None:
    assert stored(st.StructType([st.StructField("time", st.TimeType())]), {}).field("time").type == pa.time64("us")


@pytest.mark.parametrize(
    ("t", "way"),
    [
        (VectorUDT(), "vector_to_array"),
        (st.CalendarIntervalType(), "numbers"),
        (st.YearMonthIntervalType(), "number of months"),
    ],
    ids=lambda x: type(x).__name__,
)
def test_types_that_lance_lacks_are_refused_with_an_alternative(t: st.DataType, way: str) -> None:
    schema = st.StructType([st.StructField("s", st.StructType([st.StructField("x", st.ArrayType(t))]))])
    with pytest.raises(UnsupportedFeatureError, match=rf"column 's\.x\.element'.*{way}"):
        stored(schema, {})


def test_the_promise_has_sparks_names_and_utc() -> None:
    schema = promised(to_spark(pa.schema([pa.field("l", pa.list_(pa.timestamp("ns", "Asia/Tokyo"), 2), False)])))
    assert schema == pa.schema([pa.field("l", pa.list_(pa.field("element", pa.timestamp("us", "UTC"))), False)])
    assert schema.field("l").type.value_field.name == "element"
