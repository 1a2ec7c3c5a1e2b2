"""A partitioned namespace in Spark: one DataFrame, whose filters choose the tables that are opened."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lance_spark
from lance_spark.namespace.partitioned.namespace import PartitionedNamespace
from tests.namespace.partitioned.made import with_partitions
from tests.spark.plans import physical, scan_statistics, scans

SCHEMA = pa.schema([pa.field("id", pa.int64(), False), pa.field("ts", pa.timestamp("us", "UTC")), pa.field("country", pa.string())])


SHOWN = "struct<id:bigint,ts:timestamp,country:string>"


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Twelve partitions: the years 2020 to 2023 in three countries, two rows each; the tables lack the column `country`."""
    made = PartitionedNamespace.create(tmp_path_factory.mktemp("partitioned") / "n", SCHEMA, [("year", "ts"), "country"])
    partitions = []
    for i, (year, country) in enumerate((y, c) for y in range(2020, 2024) for c in ("US", "DE", None)):
        moments = [datetime(year, 1, 1, tzinfo=UTC), datetime(year, 12, 31, 23, tzinfo=UTC)]
        data = {"id": pa.array([2 * i, 2 * i + 1], pa.int64()), "ts": pa.array(moments, pa.timestamp("us", "UTC"))}
        schema = SCHEMA if i % 2 else pa.schema(list(SCHEMA)[:2])
        if i % 2:
            data["country"] = pa.array([country] * 2, pa.string())
        partitions.append(({"ts_year": year, "country": country}, pa.table(data, schema=schema)))
    return with_partitions(made, partitions).uri


@pytest.fixture
def df(spark: SparkSession, uri: str) -> DataFrame:
    lance_spark.enable(spark)
    return spark.read.format("lance").load(uri)


def test_the_frame_has_the_schema_of_the_namespace_and_all_rows(df: DataFrame) -> None:
    assert [(f.name, f.dataType.simpleString(), f.nullable) for f in df.schema] == [
        ("id", "bigint", False), ("ts", "timestamp", True), ("country", "string", True),
    ]  # fmt: skip
    assert sorted(row.id for row in df.collect()) == list(range(24))
    assert {row.country for row in df.where("id < 6").collect()} == {"US", "DE", None}


@pytest.mark.parametrize(
    ("condition", "kept", "rows"),
    [
        ("country = 'US'", 4, 8),
        ("ts >= TIMESTAMP '2022-01-01 00:00:00Z'", 6, 12),
        ("ts >= TIMESTAMP '2022-01-01 00:00:00Z' AND country = 'DE'", 2, 4),
        ("country IS NULL AND ts < TIMESTAMP '2020-06-01 00:00:00Z'", 1, 1),
        ("id = 3", 12, 1),
        ("country = 'FR'", 0, 0),
    ],
)
def test_filters_choose_the_tables_as_explain_shows(df: DataFrame, condition: str, kept: int, rows: int) -> None:
    filtered = df.where(condition)
    (scan,) = scans(filtered)
    assert f"Partitions: {kept} of 12" in scan
    assert filtered.count() == rows == len(filtered.collect())


def test_rows_are_counted_from_manifests(df: DataFrame) -> None:
    assert df.count() == 24
    assert scan_statistics(df)[0] == 24
    assert scan_statistics(df.where("country = 'US'"))[0] == 8


def test_aggregates_limits_and_orders_span_the_tables(df: DataFrame) -> None:
    found = df.agg(F.min("id"), F.max("country"), F.count("country"), F.max("ts")).first()
    assert found is not None
    assert tuple(found)[:3] == (0, "US", 16)
    assert df.where("country = 'FR'").agg(F.count("id"), F.max("id")).collect() == [(0, None)]
    assert [row.id for row in df.orderBy(F.desc("id")).limit(3).collect()] == [23, 22, 21]
    assert df.limit(5).count() == 5
    assert df.select("country").distinct().count() == 3


def test_a_join_prunes_tables_at_run_time(spark: SparkSession, df: DataFrame, tmp_path: Path) -> None:
    spark.createDataFrame([("DE", 1), ("FR", 2)], "c string, n int").write.parquet(f"{tmp_path}/few")
    few = spark.read.parquet(f"{tmp_path}/few").where("n = 1")
    joined = df.join(F.broadcast(few), df.country == few.c)
    assert len(joined.collect()) == 8
    plan = physical(joined).replace(f", ReadSchema: {SHOWN}, Columnar: true", "")
    assert "RuntimeFilters: [country IN ('DE')], Partitions: 4 of 12" in plan


def test_options_choose_columns_rows_and_versions(spark: SparkSession, uri: str) -> None:
    reader = spark.read.format("lance")
    assert reader.option("columns", "id").option("filter", "country = 'US' AND id > 5").option("limit", 3).load(uri).columns == ["id"]
    assert spark.read.format("lance").option("filter", "country = 'US' AND id > 5").option("limit", 3).load(uri).count() == 3
    assert spark.read.format("lance").option("version", 2).load(uri).count() == 0


@pytest.mark.parametrize("option", [("with_row_id", "true"), ("tag", "a"), ("version", "99")])
def test_options_of_single_tables_are_refused(spark: SparkSession, uri: str, option: tuple[str, str]) -> None:
    with pytest.raises(AnalysisException, match=r"partitioned namespace|no version 99"):
        spark.read.format("lance").option(*option).load(uri).collect()
