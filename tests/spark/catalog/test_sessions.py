"""Sessions that are made from one have its catalogs: new ones, cloned ones, and the one in which a stream runs foreachBatch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from tests.spark.catalog.lakes import Lake, lake
from tests.spark.processes import START, run

UPSERT = "MERGE INTO lance.ns.t t USING batch b ON t.id = b.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"


@pytest.fixture
def counted(own: Lake) -> Lake:
    """The table `lance.ns.t` with one row."""
    own.sql("CREATE TABLE lance.ns.t AS SELECT 1L AS id, 'old' AS v")
    return own


def rows(spark: SparkSession) -> list[tuple[object, ...]]:
    return [tuple(row) for row in spark.sql("SELECT * FROM lance.ns.t ORDER BY id").collect()]


def test_a_stream_merges_its_batches_into_a_table_of_the_catalog(counted: Lake, tmp_path: Path) -> None:
    spark = counted.spark
    spark.createDataFrame([(1, "new"), (2, "two")], "id long, v string").coalesce(1).write.parquet(f"{tmp_path}/in")

    def upsert(batch: DataFrame, _: int) -> None:
        batch.createOrReplaceTempView("batch")
        batch.sparkSession.sql(UPSERT)

    stream = spark.readStream.schema("id long, v string").parquet(f"{tmp_path}/in").writeStream.foreachBatch(upsert)
    stream.option("checkpointLocation", f"{tmp_path}/checkpoint").trigger(availableNow=True).start().awaitTermination()
    assert rows(spark) == [(1, "new"), (2, "two")]
    assert len(counted.versions("ns.t")) == 2
    assert counted.pylance("ns.t") == [{"id": 1, "v": "new"}, {"id": 2, "v": "two"}]


def test_a_new_session_reads_changes_and_lists_the_tables(counted: Lake) -> None:
    new = counted.spark.newSession()
    new.sql("INSERT INTO lance.ns.t VALUES (2, 'two')")
    new.sql("UPDATE lance.ns.t SET v = 'new' WHERE id = 1")
    assert rows(new) == [(1, "new"), (2, "two")]
    new.sql("USE lance.ns")
    assert [row.tableName for row in new.sql("SHOW TABLES").collect()] == ["t"]
    assert new.sql("CALL lance.system.tags('ns.t')").collect() == []
    assert new.newSession().table("lance.ns.t").count() == 2


def test_a_catalog_that_is_replaced_leaves_nothing_to_new_sessions(spark: SparkSession, tmp_path: Path) -> None:
    lance_spark.catalog(spark, "lance", root=f"{tmp_path}/first", single_level_ns=True)
    assert [row.namespace for row in spark.newSession().sql("SHOW NAMESPACES IN lance").collect()] == ["default"]
    with lake(spark, tmp_path / "second") as second:
        second.sql("CREATE TABLE lance.ns.t AS SELECT 2L AS id")
        for session in (spark, spark.newSession()):
            assert rows(session) == [(2,)]
            assert [row.namespace for row in session.sql("SHOW NAMESPACES IN lance").collect()] == ["ns"]


def test_a_clone_has_the_catalog_of_its_parent(counted: Lake, tmp_path: Path) -> None:
    other = counted.spark.newSession()
    lance_spark.catalog(other, "lance", root=f"{tmp_path}/other")
    clone = SparkSession(counted.spark.sparkContext, counted.spark._jsparkSession.cloneSession())
    assert rows(clone) == rows(counted.spark) == [(1, "old")]
    assert other.sql("SHOW NAMESPACES IN lance").collect() == []


@pytest.fixture
def shown(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """What SET shows of a catalog with secrets."""
    options = {"account_key": "hush-1", "secret.region": "hush-2"}
    service = {"uri": "http://127.0.0.1:1/hush-3", "header.x-api-key": "hush-4"}
    lance_spark.catalog(spark, "lance", namespace="rest", storage_options=options, **service)
    yield str(spark.newSession().sql("SET").collect())
    lance_spark.catalog(spark, "lance", root=str(tmp_path))


def test_settings_that_may_be_secret_are_hidden(shown: str) -> None:
    assert "spark.sql.catalog.lance.namespace" in shown
    assert shown.count("spark.sql.catalog.lance.") == 5
    assert "hush" not in shown


SESSIONS = f"""
lake, jar = sys.argv[1:]
if jar != "none":
    builder = builder.config("spark.jars", jar).config("spark.sql.extensions", "lancespark.LancePlanner$Extensions")
builder = builder.config("spark.sql.shuffle.partitions", "1").config("spark.sql.warehouse.dir", lake + "-files")
spark = builder.master("local[1]").getOrCreate()
spark.range(1).count()
lance_spark.catalog(spark, "lance", root=lake)
spark.sql("CREATE NAMESPACE lance.ns")
spark.sql("CREATE TABLE lance.ns.t (id BIGINT, v BIGINT)")
def upsert(batch, number):
    batch.selectExpr("value AS id", "{{}}L AS v".format(number)).createOrReplaceTempView("batch")
    batch.sparkSession.sql("{UPSERT}")
stream = spark.readStream.format("rate").option("rowsPerSecond", 100).load().selectExpr("value % 3 AS value").distinct().writeStream
query = stream.outputMode("update").foreachBatch(upsert).option("checkpointLocation", lake + "-checkpoint").start()
while spark.table("lance.ns.t").count() < 3:
    assert query.isActive, query.exception()
query.stop()
print("IDS", sorted(row.id for row in spark.newSession().table("lance.ns.t").collect()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("with_jar", [False, True], ids=["compiled", "jar"])
def test_a_running_stream_upserts_with_and_without_the_jar(tmp_path: Path, with_jar: bool) -> None:
    jar = f"{tmp_path}/planner.jar" if with_jar else "none"
    if with_jar:
        run("import runpy; runpy.run_module('lance_spark', run_name='__main__')", "jar", jar)
    assert "IDS [0, 1, 2]" in run(START + SESSIONS, f"{tmp_path}/lake", jar)
