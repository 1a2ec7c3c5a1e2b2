"""A SQL catalog whose tables are in the catalog of another system, with the settings that users of the JVM connector have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import pytest
from pyspark.sql import SparkSession

import lance_spark
from tests.namespace import catalog_servers
from tests.namespace.test_catalogs import AWS
from tests.spark_session import SPARK_ERRORS


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with catalog_servers.hive(tmp_path_factory.mktemp("hive")) as uri:
        yield uri


@pytest.fixture(params=["glue", pytest.param("hive3", marks=pytest.mark.slow)])
def lake(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """The name of a catalog of Spark."""
    name, root = f"lake_{request.param}", str(tmp_path / "lake")
    if request.param == "glue":
        settings = {"impl": "glue", "endpoint": request.getfixturevalue("s3_server"), **AWS}
    else:
        settings = {"impl": "hive3", "parent": "hive", "hadoop.hive.metastore.uris": request.getfixturevalue("metastore")}
    for key, value in {**settings, "root": root}.items():
        spark.conf.set(f"spark.sql.catalog.{name}.{key}", value)
    spark.conf.set(f"spark.sql.catalog.{name}", "lancespark.LanceCatalog")
    lance_spark.enable(spark)
    yield name
    for key in ("", *(f".{key}" for key in (*settings, "root"))):
        spark.conf.unset(f"spark.sql.catalog.{name}{key}")


def test_statements_work_as_in_a_directory(lake: str, spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"CREATE NAMESPACE {lake}.shop COMMENT 'what is sold'")
    spark.sql(f"CREATE TABLE {lake}.shop.orders (id BIGINT, note STRING DEFAULT 'none')")
    assert spark.table(f"{lake}.shop.orders").count() == 0, "declared, and without rows"
    spark.sql(f"INSERT INTO {lake}.shop.orders (id) VALUES (1), (2)")
    spark.sql(f"UPDATE {lake}.shop.orders SET note = 'paid' WHERE id = 2")
    spark.sql(f"MERGE INTO {lake}.shop.orders t USING (SELECT 3 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)")
    rows = spark.sql(f"SELECT id, note FROM {lake}.shop.orders ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(1, "none"), (2, "paid"), (3, "none")]
    spark.sql(f"CREATE TABLE {lake}.shop.copy AS SELECT id FROM {lake}.shop.orders")
    spark.sql(f"CREATE OR REPLACE TABLE {lake}.shop.copy AS SELECT id + 1 AS id FROM {lake}.shop.orders")
    assert sorted(row.tableName for row in spark.sql(f"SHOW TABLES IN {lake}.shop").collect()) == ["copy", "orders"]
    [details] = spark.sql(f"DESCRIBE DETAIL {lake}.shop.copy").collect()
    location = details["location"]
    assert sorted(lance.dataset(location).to_table()["id"].to_pylist()) == [2, 3, 4]

    elsewhere = str(tmp_path / "elsewhere")
    spark.sql(f"CREATE TABLE {lake}.shop.placed (id INT) LOCATION '{elsewhere}'")
    spark.sql(f"INSERT INTO {lake}.shop.placed VALUES (1)")
    assert lance.dataset(elsewhere).count_rows() == 1
    spark.sql(f"DROP TABLE {lake}.shop.placed")
    assert lance.dataset(elsewhere).count_rows() == 1, "the files of a table with a LOCATION stay"

    with pytest.raises(SPARK_ERRORS):
        spark.sql(f"CREATE TABLE {lake}.shop.bad AS SELECT assert_true(id > 5) FROM {lake}.shop.orders")
    assert spark.catalog.tableExists(f"{lake}.shop.bad") is False, "a failed CREATE takes its name back"
    with pytest.raises(SPARK_ERRORS, match="SCHEMA_NOT_EMPTY"):
        spark.sql(f"DROP NAMESPACE {lake}.shop")
    spark.sql(f"DROP NAMESPACE {lake}.shop CASCADE")
    assert not Path(location).exists()
    assert [row for row in spark.sql(f"SHOW NAMESPACES IN {lake}").collect() if row[0] == "shop"] == []
