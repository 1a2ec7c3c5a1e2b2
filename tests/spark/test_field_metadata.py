"""What Spark is shown of the metadata of fields: a table may come from anyone, and Spark acts on the metadata of columns."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest
from pyspark.sql import types as st

from lance_spark import Dataset
from lance_spark.errors import InvalidOptionError, SchemaMismatchError, UnsupportedFeatureError
from lance_spark.spark.columns.field_metadata import constant_default, is_checked
from lance_spark.spark.columns.types import stored, to_spark

STRANGE = {
    "__CHAR_VARCHAR_TYPE_STRING": "char(5)",
    "__COLLATIONS": "nonsense",
    "__metadata_col": "true",
    "identity.start": "x",
    "GENERATION_EXPRESSION": "raise_error('no')",
    "delta.generationExpression": "raise_error('no')",
    "spark.watermarkDelayMs": "1",
    "parquet.field.id": "x",
    "CURRENT_DEFAULT": "substr(repeat('x', 1900000000), 1, 1)",
    "EXISTS_DEFAULT": "substr(repeat('x', 1900000000), 1, 1)",
    "lance-spark:declared-type": "char(900000000)",
    "element.lance-spark:declared-type": "string collate nonsense",
    "arrow.fixed-size-list.size": "7",
}


NAMES = {"int": "integer", "bigint": "long", "tinyint": "byte"}


def kind(t: str) -> st.DataType:
    """The type with this name. Spark's own parser needs a session."""
    if t.startswith("array<"):
        return st.ArrayType(kind(t[6:-1]))
    if t.startswith("map<"):
        key, value = t[4:-1].split(",")
        return st.MapType(kind(key), kind(value))
    field = {"name": "c", "type": NAMES.get(t, t), "nullable": True, "metadata": {}}
    found: st.DataType = st.StructType.fromJson({"fields": [field]}).fields[0].dataType
    return found


def column(t: pa.DataType, **metadata: str) -> st.StructField:
    return to_spark(pa.schema([pa.field("c", t, metadata=metadata)])).fields[0]


@pytest.mark.parametrize("t", [pa.string(), pa.int64(), pa.list_(pa.string()), pa.struct([pa.field("c", pa.string(), metadata=STRANGE)])])
def test_metadata_that_spark_would_act_on_is_not_shown(t: pa.DataType) -> None:
    shown = column(t, **STRANGE)
    assert shown.metadata == {}
    assert shown.dataType == column(t).dataType
    assert "raise_error" not in shown.json()
    assert "char" not in shown.json()


def test_comments_and_keys_of_the_format_are_shown_without_control_characters() -> None:
    shown = column(pa.string(), comment="a\x1b[31m\tb", **{"lance-encoding:compression": "zstd"}).metadata
    assert shown == {"comment": "a\\u001b[31m\tb", "lance-encoding:compression": "zstd"}


@pytest.mark.parametrize(
    ("t", "text"),
    [
        ("int", "5"),
        ("int", " -5 "),
        ("int", "NULL"),
        ("bigint", "5L"),
        ("tinyint", "5Y"),
        ("float", "1e5"),
        ("float", "CAST('NaN' AS FLOAT)"),
        ("double", "1.5D"),
        ("decimal(5,2)", "1.50BD"),
        ("boolean", "true"),
        ("string", r"'it\'s'"),
        ("string", "'it''s'"),
        ("string", "current_user()"),
        ("binary", "X'00ff'"),
        ("date", "DATE'2026-01-02'"),
        ("date", "current_date()"),
        ("timestamp", "TIMESTAMP '2026-01-02 03:04:05.5'"),
        ("timestamp", "current_timestamp()"),
        ("timestamp", "now()"),
        ("timestamp_ntz", "localtimestamp()"),
        ("interval day to second", "INTERVAL '1 00:00:00' DAY TO SECOND"),
        ("array<int>", "ARRAY(1, NULL)"),
        ("array<string>", r"array('a,', 'b\'', 'c''d')"),
    ],
)
def test_literals_and_functions_of_the_list_are_defaults(t: str, text: str) -> None:
    assert is_checked(text, kind(t))


@pytest.mark.parametrize(
    ("t", "text"),
    [
        ("int", "2147483648"),
        ("int", "1 + 1"),
        ("int", "'5'"),
        ("tinyint", "128"),
        ("decimal(5,2)", "1E+999999999BD"),
        ("decimal(5,2)", "1.505BD"),
        ("float", "1e39"),
        ("double", "rand()"),
        ("string", "'a' || 'b'"),
        ("string", "'a' collate nonsense"),
        ("string", "'" + "x" * 20_000 + "'"),
        ("string", "repeat('x', 1900000000)"),
        ("date", "DATE '2026-13-01'"),
        ("date", "DATE 'now'"),
        ("timestamp", "TIMESTAMP '2026-01-02 25:00:00'"),
        ("array<int>", "ARRAY(1, f(2))"),
        ("array<string>", "array(" + "''" * 4_000 + "("),
        ("map<string,int>", "map('a', 1)"),
    ],
)
def test_other_expressions_are_no_defaults(t: str, text: str) -> None:
    assert not is_checked(text, kind(t))


def test_a_checked_default_is_shown_and_never_that_of_existing_rows() -> None:
    shown = column(pa.int64(), CURRENT_DEFAULT="7", EXISTS_DEFAULT="raise_error('no')").metadata
    assert shown == {"CURRENT_DEFAULT": "7", "EXISTS_DEFAULT": "NULL"}


def test_a_declared_default_becomes_the_constant_that_spark_calculated() -> None:
    made = st.StructField("c", st.IntegerType(), True, {"CURRENT_DEFAULT": "1 + 2", "EXISTS_DEFAULT": "3"})
    assert constant_default(made).metadata["CURRENT_DEFAULT"] == "3"
    tomorrow = {"CURRENT_DEFAULT": "current_date() + 1", "EXISTS_DEFAULT": "DATE '2026-01-02'"}
    with pytest.raises(UnsupportedFeatureError, match="'c': the DEFAULT current_date"):
        constant_default(st.StructField("c", st.DateType(), True, tomorrow))


def test_declared_types_of_strings_are_kept_and_shown() -> None:
    declared = st.StructType().add("c", st.CharType(3)).add("v", st.VarcharType(4)).add("s", st.StringType("UTF8_LCASE"))
    declared = declared.add("a", st.ArrayType(st.StringType("UNICODE_CI")))
    table = stored(declared, {})
    assert [f.type for f in table] == [pa.string(), pa.string(), pa.string(), pa.list_(pa.string())]
    shown = to_spark(table)
    assert [f.metadata.get("__CHAR_VARCHAR_TYPE_STRING") for f in shown] == ["char(3)", "varchar(4)", None, None]
    assert (shown["s"].dataType, shown["a"].dataType) == (declared["s"].dataType, declared["a"].dataType)


@pytest.mark.parametrize(
    "t",
    [
        st.ArrayType(st.CharType(3)),
        st.StructType().add("x", st.VarcharType(3)),
        st.MapType(st.StringType(), st.CharType(3)),
        st.CharType(9000),
    ],
)
def test_char_and_varchar_are_types_of_whole_columns_only(t: st.DataType) -> None:
    with pytest.raises(UnsupportedFeatureError, match="is not possible here"):
        stored(st.StructType().add("c", t), {})


@pytest.fixture
def declared(uri: str) -> Dataset:
    """A table (id, c CHAR(3), v VARCHAR(3), s STRING COLLATE UTF8_LCASE) with one row."""
    columns = st.StructType().add("id", st.LongType()).add("c", st.CharType(3)).add("v", st.VarcharType(3))
    schema = stored(columns.add("s", st.StringType("UTF8_LCASE")), {})
    return Dataset.write(uri, pa.table([[1], ["a"], ["b  "], ["C"]], schema=schema))


def test_every_writer_pads_char_and_refuses_longer_values(declared: Dataset) -> None:
    after = Dataset.write(declared.uri, pa.table({"id": [2, 3, 4], "c": ["de", "fgh   ", None], "v": ["x", "yzä  ", None]}), mode="append")
    assert after.scan(columns=["c", "v"]).to_table().to_pydict() == {"c": ["a  ", "de ", "fgh", None], "v": ["b  ", "x", "yzä", None]}
    for name in ("c", "v"):
        with pytest.raises(SchemaMismatchError, match=f"column '{name}': a value has more than the 3 characters of"):
            Dataset.write(declared.uri, pa.table({"id": [5], name: ["abcd"]}), mode="append")
    assert Dataset.open(declared.uri).version == after.version


def test_conditions_of_our_own_do_not_compare_what_spark_compares_otherwise(declared: Dataset) -> None:
    for condition in ("c = 'a'", "s = 'c'", "s IN ('c')", "s LIKE 'c%'", "upper(s) = 'C'"):
        with pytest.raises(InvalidOptionError, match="only Spark compares its strings"):
            declared.count_rows(condition)
    assert declared.count_rows("c IS NOT NULL AND s IS NOT NULL AND v = 'b  '") == 1


def test_compaction_keeps_values_of_writers_that_ignore_the_length(declared: Dataset) -> None:
    for _ in range(2):
        lance.write_dataset(pa.table({"id": [7], "c": ["x"], "v": ["longer"], "s": ["y"]}), declared.uri, mode="append")
    before = Dataset.open(declared.uri).scan().to_table().to_pylist()
    Dataset.open(declared.uri).optimize.compact_files()
    after = Dataset.open(declared.uri)
    assert (len(lance.dataset(declared.uri).get_fragments()), after.scan().to_table().to_pylist()) == (1, before)
