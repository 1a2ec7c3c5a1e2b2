"""Views of texts and bytes, ordered dictionaries and wide decimals: the types of Arrow that Spark has no type for, both ways."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lance_spark import Dataset

LONG = "a text that is longer than the twelve bytes of a view"
ORDERED = pa.dictionary(pa.int8(), pa.string(), ordered=True)
ARROW: dict[str, tuple[pa.DataType, list[Any], str]] = {
    "string_view": (pa.string_view(), ["a", LONG, "", None], "string"),
    "binary_view": (pa.binary_view(), [b"a", LONG.encode(), b"", None], "binary"),
    "list<string_view>": (pa.list_(pa.string_view()), [["a", LONG], [], [None], None], "array<string>"),
    "ordered dictionary": (ORDERED, ["low", "high", "low", None], "string"),
    "list<ordered dictionary>": (pa.list_(ORDERED), [["low"], [], ["high", None], None], "array<string>"),
}


def comparable(value: Any) -> Any:
    """The value of a row of Spark."""
    return bytes(value) if isinstance(value, bytearray) else value


@pytest.mark.spec("schema.md", "String and Binary Types")
@pytest.mark.spec("schema.md", "Dictionary Type")
@pytest.mark.parametrize("name", ARROW)
def test_a_column_goes_through_spark_and_back(spark: SparkSession, uri: str, name: str) -> None:
    arrow_type, values, spark_type = ARROW[name]
    rows = pa.table({"id": range(4), "c": pa.array(values, arrow_type)})
    Dataset.write(uri, rows)
    frame = spark.read.format("lance").load(uri)
    assert dict(frame.dtypes)["c"] == spark_type
    assert [comparable(row.c) for row in frame.orderBy("id").collect()] == values
    # What Spark has read is appended, filtered and changed, and both libraries have the same rows.
    frame.selectExpr("id + 10 AS id", "c").write.format("lance").mode("append").save(uri)
    again = spark.read.format("lance").load(uri)
    assert again.where("c IS NULL").count() == 2
    theirs = lance.dataset(uri)
    theirs.validate()
    assert sorted(theirs.to_table(columns=["id"])["id"].to_pylist()) == [*range(4), *range(10, 14)]
    expected = {i + start: value for start in (0, 10) for i, value in enumerate(values)}
    assert {row["id"]: row["c"] for row in theirs.to_table().to_pylist()} == expected
    assert {row["id"]: row["c"] for row in Dataset.open(uri).scan().to_table().to_pylist()} == expected
    # Arrow's own type is appended to what Spark has written.
    Dataset.write(uri, pa.table({"id": [20], "c": pa.array(values[:1], arrow_type)}), "append")
    assert [comparable(row.c) for row in spark.read.format("lance").load(uri).where("id = 20").collect()] == values[:1]


@pytest.mark.spec("schema.md", "Dictionary Type")
def test_an_ordered_dictionary_of_pylance_is_read_and_compared_as_text(spark: SparkSession, uri: str) -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.int8()), pa.array(["low", "high"]), ordered=True)
    lance.write_dataset(pa.table({"id": [1, 2, 3], "c": values}), uri)
    frame = spark.read.format("lance").load(uri)
    assert [(row.id, row.c) for row in frame.orderBy("id").collect()] == [(1, "high"), (2, "low"), (3, None)]
    # The order of a dictionary is none of the text in Spark: 'high' < 'low'.
    assert [row.id for row in frame.where("c < 'i'").collect()] == [1]
    assert frame.groupBy("c").count().count() == 3


@pytest.mark.spec("schema.md", "Decimal Types")
def test_an_error_says_how_to_read_a_table_with_a_decimal_of_more_than_38_digits(spark: SparkSession, uri: str) -> None:
    wide = [Decimal(10) ** 40, None]
    lance.write_dataset(pa.table({"id": [1, 2], "wide": pa.array(wide, pa.decimal256(50, 0))}), uri)
    with pytest.raises(PySparkException, match=r"'wide'.*more than the 38 digits.*columns.*Dataset"):
        spark.read.format("lance").load(uri).collect()
    frame = spark.read.format("lance").option("columns", "id").load(uri)
    assert [row.id for row in frame.orderBy("id").collect()] == [1, 2]
    assert Dataset.open(uri).scan(columns=["wide"]).to_table()["wide"].to_pylist() == wide
