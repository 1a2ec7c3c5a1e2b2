"""Spark's VARIANT keeps each value through every door, and other clients read it as Arrow's extension type for variants."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from lance_spark import Dataset
from lance_spark.schema.variants import FIELD_METADATA, STORED
from tests.spark_session import SPARK_ERRORS, SPARK_VERSION

TYPE = {"ARROW:extension:name": "arrow.parquet.variant", "ARROW:extension:metadata": ""}
MANY = ", ".join(f'"field {i}": {i}' for i in range(1000))
VALUES = {
    "an object": """parse_json('{"a": 1, "b": {"c": [1, 2.5, "x", null, true]}, "A": 2}')""",
    "a big object": f"parse_json('{{{MANY}}}')",
    "an array": "parse_json('[1, [2, []], {}]')",
    "a text": """parse_json('"words"')""",
    "a long text": "CAST(repeat('words', 50000) AS VARIANT)",
    "a null of JSON": "parse_json('null')",
    "no value": "CAST(NULL AS VARIANT)",
    "a decimal": "CAST(CAST('12345678901234567890.12' AS DECIMAL(38,2)) AS VARIANT)",
    "a small decimal": "CAST(1.50BD AS VARIANT)",
    "a double": "CAST(1.5e300D AS VARIANT)",
    "a float": "CAST(0.1F AS VARIANT)",
    "a number": "CAST(9223372036854775807 AS VARIANT)",
    "a date": "CAST(DATE'0001-01-02' AS VARIANT)",
    "a time": "CAST(TIMESTAMP'2024-01-02 03:04:05.678901' AS VARIANT)",
    "a local time": "CAST(TIMESTAMP_NTZ'2024-01-02 03:04:05.678901' AS VARIANT)",
    "bytes": "CAST(X'00FF' AS VARIANT)",
    "a struct": "to_variant_object(named_struct('d', DATE'2024-01-02', 'n', 1.25BD, 's', named_struct('t', array(1, NULL))))",
}
PLACES = {"v": "v", "s": "named_struct('v', v, 'n', id) AS s", "l": "array(v, NULL, v) AS l", "m": "map('k', v) AS m"}
"""The columns: the variant itself, and in a struct, a list and a map."""


def values(spark: SparkSession) -> DataFrame:
    """A row for each value, with the value in each place."""
    rows = " UNION ALL ".join(f"SELECT {i} AS id, {value} AS v" for i, value in enumerate(VALUES.values()))
    return spark.sql(f"SELECT id, {', '.join(PLACES.values())} FROM ({rows})")


def shown(frame: DataFrame) -> list[tuple[object, ...]]:
    """The bytes of the variants, in all places."""
    rows = frame.orderBy("id").collect()
    return [(row.id, repr(row.v), repr(row.s), repr(row.l), repr(row.m)) for row in rows]


def _saved(spark: SparkSession, name: str, path: str) -> None:
    values(spark).write.format("lance").mode("append").save(path)


def _added_by_merge_schema(spark: SparkSession, name: str, path: str) -> None:
    spark.range(0).selectExpr("CAST(id AS INT) AS id").write.format("lance").mode("append").save(path)
    values(spark).write.format("lance").mode("append").option("mergeSchema", True).save(path)


def _inserted(spark: SparkSession, name: str, path: str) -> None:
    columns = "id INT, v VARIANT, s STRUCT<v: VARIANT, n: INT>, l ARRAY<VARIANT>, m MAP<STRING, VARIANT>"
    spark.sql(f"CREATE TABLE {name} ({columns}) USING lance")
    values(spark).writeTo(name).append()


def _merged(spark: SparkSession, name: str, path: str) -> None:
    values(spark).where("id < 5").write.format("lance").mode("append").save(path)
    spark.sql(f"UPDATE {name} SET v = parse_json('[]'), l = NULL WHERE id < 3")
    values(spark).createOrReplaceTempView("variants_to_merge")
    matched = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    spark.sql(f"MERGE INTO {name} t USING variants_to_merge s ON t.id = s.id {matched}")


def _added(spark: SparkSession, name: str, path: str) -> None:
    values(spark).drop("v", "l").write.format("lance").mode("append").save(path)
    spark.sql(f"ALTER TABLE {name} ADD COLUMNS (v VARIANT, l ARRAY<VARIANT>)")
    values(spark).createOrReplaceTempView("variants_to_add")
    spark.sql(f"MERGE INTO {name} t USING variants_to_add s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v, l = s.l")


def _streamed(spark: SparkSession, name: str, path: str) -> None:
    values(spark).write.format("lance").mode("append").save(f"{path}.from")
    rows = spark.readStream.format("lance").load(f"{path}.from").writeStream.format("lance")
    query = rows.option("checkpointLocation", f"{path}.progress").trigger(availableNow=True).start(path)
    query.awaitTermination()


def _rewritten(spark: SparkSession, name: str, path: str) -> None:
    rows = values(spark)
    for part in (rows.where("id % 2 = 0"), rows.where("id % 2 = 1"), rows.withColumn("id", rows.id + 100)):
        part.write.format("lance").mode("append").save(path)
    spark.sql(f"DELETE FROM {name} WHERE id >= 100")
    Dataset.open(path).optimize.compact_files()


DOORS: dict[str, Callable[[SparkSession, str, str], None]] = {
    "save": _saved,
    "MERGE and UPDATE": _merged,
    "INSERT": _inserted,
    "CREATE TABLE AS": lambda spark, name, path: values(spark).writeTo(name).using("lance").create(),
    "mergeSchema": _added_by_merge_schema,
    "ADD COLUMNS": _added,
    "a stream": _streamed,
    "compaction": _rewritten,
}
PLAIN = ("save", "MERGE and UPDATE")


@pytest.mark.parametrize("door", [pytest.param(door, marks=() if door in PLAIN else pytest.mark.slow) for door in DOORS])
def test_a_value_keeps_its_bytes(spark: SparkSession, tmp_path: Path, door: str) -> None:
    lance_spark.catalog(spark, "lance", root=str(tmp_path / "lake"))
    path = str(tmp_path / "t.lance")
    name = f"lance.`{path}`"
    DOORS[door](spark, name, path)
    found = spark.read.format("lance").load(path)
    expected = values(spark)
    assert found.select(*expected.columns).dtypes == expected.dtypes
    assert shown(found) == shown(expected)
    stored = lance.dataset(path)
    stored.validate()
    assert stored.schema.field("v").equals(pa.field("v", STORED, metadata=TYPE), check_metadata=True)
    assert stored.schema.field("l").type.value_field.metadata == FIELD_METADATA


def test_changes_and_their_stream_have_the_values(spark: SparkSession, tmp_path: Path) -> None:
    lance_spark.catalog(spark, "lance", root=str(tmp_path / "lake"))
    path = str(tmp_path / "t.lance")
    made = values(spark).select("id", "v").coalesce(1)
    made.write.format("lance").mode("append").option("enable_stable_row_ids", True).save(path)
    changed = "to_variant_object(named_struct('d', DATE'2024-01-02', 'n', 1.25BD, 'b', X'00FF'))"
    spark.sql(f"UPDATE lance.`{path}` SET v = {changed} WHERE id = 0")
    feed = {"readChangeFeed": "true", "startingVersion": "1"}
    changes = spark.read.format("lance").options(**feed).load(path)
    inserted = changes.where("_change_type = 'insert'").select("id", "v").orderBy("id")
    expected = [repr(row) for row in made.orderBy("id").collect()]
    assert [repr(row) for row in inserted.collect()] == expected
    parts = "variant_get(v, '$.d', 'date')", "variant_get(v, '$.n', 'decimal(3,2)')", "variant_get(v, '$.b', 'binary')"
    updated = changes.where("_change_type = 'update_postimage'").selectExpr(*parts)
    assert [tuple(row) for row in updated.collect()] == [(date(2024, 1, 2), Decimal("1.25"), bytearray(b"\0\xff"))]
    assert spark.sql(f"SELECT count(v) FROM table_changes('{path}', 2)").collect()[0][0] == 2

    stream = spark.readStream.format("lance").options(**feed).load(path).where("_change_type = 'insert'").select("id", "v")
    writer = stream.writeStream.format("lance").option("checkpointLocation", f"{path}.progress")
    writer.trigger(availableNow=True).start(f"{path}.copy").awaitTermination()
    copied = spark.read.format("lance").load(f"{path}.copy").orderBy("id")
    assert [repr(row) for row in copied.collect()] == expected


@pytest.mark.parametrize("version", ["2.1", "2.2", pytest.param("2.3", marks=pytest.mark.slow)])
def test_storage_versions_have_variants(spark: SparkSession, uri: str, version: str) -> None:
    rows = values(spark).select("id", "v", "s", "l") if version == "2.1" else values(spark)
    rows.write.format("lance").mode("append").option("data_storage_version", version).save(uri)
    found = spark.read.format("lance").load(uri)
    assert [repr(row) for row in found.orderBy("id").collect()] == [repr(row) for row in rows.orderBy("id").collect()]


def test_fields_are_found_as_in_spark(spark: SparkSession, uri: str) -> None:
    """Conditions on fields are Spark's; that of the column, and the columns that a query needs, are pushed down."""
    values(spark).write.format("lance").mode("append").save(uri)
    found, expected = spark.read.format("lance").load(uri), values(spark)
    for frame in (found, expected):
        frame.createOrReplaceTempView("found_variants" if frame is found else "given_variants")
    with_colon = ("SELECT id, v:a::int FROM {t} ORDER BY id",) if SPARK_VERSION >= (4, 3) else ()
    for query in (
        *with_colon,
        "SELECT id, variant_get(v, '$.a', 'int') FROM {t} ORDER BY id",
        "SELECT id, variant_get(v, '$.b.c[1]', 'decimal(5,1)'), to_json(v), schema_of_variant(v) FROM {t} ORDER BY id",
        "SELECT id FROM {t} WHERE variant_get(v, '$.a', 'int') = 1",
        "SELECT id, is_variant_null(v) FROM {t} WHERE v IS NULL OR is_variant_null(v) ORDER BY id",
        "SELECT id FROM {t} WHERE s.v IS NULL",
        "SELECT id, pos FROM {t}, LATERAL variant_explode(v) ORDER BY id, pos",
        "SELECT count(v), count(s.v), count(*) FROM {t}",
    ):
        assert spark.sql(query.format(t="found_variants")).collect() == spark.sql(query.format(t="given_variants")).collect(), query


def test_other_writers_variants_are_read(spark: SparkSession, uri: str) -> None:
    duckdb = pytest.importorskip("duckdb", minversion="2.0", reason="a writer and reader of variants")
    given = duckdb.sql("""SELECT 1 AS id, '{"a": 1.5, "b": [true, null]}'::JSON::VARIANT AS v UNION ALL SELECT 2, NULL ORDER BY id""")
    lance.write_dataset(given.to_arrow_table(), uri)
    texts = spark.read.format("lance").load(uri).selectExpr("to_json(v) AS v").collect()
    assert [row.v for row in texts] == ['{"a":1.5,"b":[true,null]}', None]
    rows = spark.sql("""SELECT 3 AS id, parse_json('{"c": [1, "x"]}') AS v""")
    rows.write.format("lance").mode("append").save(uri)
    found = lance.dataset(uri).to_table(filter="id = 3")
    assert found.num_rows == 1
    assert duckdb.sql("SELECT typeof(v), v::JSON::VARCHAR FROM found").fetchall() == [("VARIANT", '{"c":[1,"x"]}')]


def _table(t: pa.DataType, value: object) -> pa.Table:
    return pa.table([pa.array([value], t)], schema=pa.schema([pa.field("v", t, metadata=TYPE)]))


@pytest.mark.parametrize(
    ("t", "value", "error"),
    [
        (
            pa.struct([("metadata", pa.binary()), ("value", pa.binary()), ("typed_value", pa.int32())]),
            {"metadata": b"\1\0\0", "value": None, "typed_value": 5},
            "'v' has shredded variants",
        ),
        (pa.struct([("metadata", pa.binary()), ("value", pa.binary())]), {"metadata": b"\1\0\0", "value": None}, "has no value"),
        (pa.struct([("metadata", pa.binary()), ("value", pa.binary())]), {"metadata": None, "value": b"\0"}, "has no metadata"),
        (pa.struct([("metadata", pa.binary()), ("value", pa.binary())]), {"metadata": b"x", "value": b"\0"}, "MALFORMED_VARIANT"),
    ],
    ids=["shredded", "no value", "no metadata", "damaged"],
)
def test_what_is_no_whole_variant_is_an_error(spark: SparkSession, uri: str, t: pa.DataType, value: object, error: str) -> None:
    lance.write_dataset(_table(t, value), uri)
    with pytest.raises(SPARK_ERRORS, match=error):
        spark.read.format("lance").load(uri).selectExpr("to_json(v)").collect()
    assert Dataset.open(uri).count_rows() == 1


def test_a_struct_of_binaries_is_no_variant(spark: SparkSession, uri: str) -> None:
    spark.sql("SELECT named_struct('metadata', X'00', 'value', X'01') AS v").write.format("lance").mode("append").save(uri)
    assert spark.read.format("lance").load(uri).schema["v"].dataType.simpleString() == "struct<metadata:binary,value:binary>"


def test_a_condition_of_dataset_on_a_variant_is_refused(uri: str) -> None:
    lance.write_dataset(_table(STORED, {"metadata": b"\1\0\0", "value": b"\x0c\5"}), uri)
    with pytest.raises(lance_spark.errors.LanceError):
        Dataset.open(uri).scan(filter="v = 5")
