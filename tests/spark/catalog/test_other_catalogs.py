"""A SQL catalog whose tables are in the catalog of another system, with the settings that users of the JVM connector have."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import lance
import pytest
from lance.namespace import RestAdapter
from pyspark.sql import SparkSession

import lance_spark
from tests.namespace import catalog_servers
from tests.namespace.test_catalogs import AWS
from tests.spark_session import SPARK_ERRORS


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with catalog_servers.hive(tmp_path_factory.mktemp("hive")) as uri:
        yield uri


@pytest.fixture(scope="module")
def unity_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with catalog_servers.unity(tmp_path_factory.mktemp("unity")) as endpoint:
        yield endpoint


SLOW = ("hive2", "hive3", "unity", "rest")


@pytest.fixture(params=["glue", *(pytest.param(kind, marks=pytest.mark.slow) for kind in SLOW)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def lake(request: pytest.FixtureRequest, kind: str, spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """The name of a catalog of Spark, whose namespaces are databases. Its settings are those of the JVM connector, where it has others."""
    name, root = f"lake_{kind}", str(tmp_path / "lake")
    with contextlib.ExitStack() as stack:
        if kind == "glue":
            settings = {"endpoint": request.getfixturevalue("s3_server"), **AWS, "root": root}
        elif kind == "unity":
            endpoint = request.getfixturevalue("unity_catalog")
            settings = {"endpoint": endpoint, "auth_token": "x", "parent": "lake", "root": root}
        elif kind == "rest":
            server = stack.enter_context(RestAdapter("dir", {"root": root}, port=0))
            settings = {"uri": f"http://127.0.0.1:{server.port}"}
        else:
            settings = {"hadoop.hive.metastore.uris": request.getfixturevalue("metastore"), "root": root}
            settings |= {"parent": "hive"} if kind == "hive3" else {}
        for key, value in {**settings, "impl": kind}.items():
            spark.conf.set(f"spark.sql.catalog.{name}.{key}", value)
        spark.conf.set(f"spark.sql.catalog.{name}", "lancespark.LanceCatalog")
        lance_spark.enable(spark)
        yield name
        for key in ("", *(f".{key}" for key in (*settings, "impl"))):
            spark.conf.unset(f"spark.sql.catalog.{name}{key}")


def test_statements_work_as_in_a_directory(kind: str, lake: str, spark: SparkSession, tmp_path: Path) -> None:
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

    if kind.startswith("hive"):
        spark.sql(f"ALTER TABLE {lake}.shop.copy RENAME TO {lake}.shop.renamed")
        assert spark.table(f"{lake}.shop.renamed").count() == 3
        spark.sql(f"ALTER TABLE {lake}.shop.renamed RENAME TO {lake}.shop.copy")
    elif kind != "rest":
        with pytest.raises(SPARK_ERRORS, match="cannot rename tables: register the location"):
            spark.sql(f"ALTER TABLE {lake}.shop.copy RENAME TO {lake}.shop.renamed")

    elsewhere = str(tmp_path / "lake" / "elsewhere")
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
