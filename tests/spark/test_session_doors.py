"""What any door changes in a table of the session catalog is in Spark's catalog: that it has a version, and which columns it has."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from lance_spark import Dataset, LanceTable, lance_udf
from tests.spark.plans import Sql
from tests.spark_session import SPARK_ERRORS

Door = Callable[[SparkSession, Path], object]

COLUMNS = "id BIGINT, v BIGINT"
ROWS = "SELECT 1L AS id, 5L AS v"
LOST = "the files of the table at .* are missing: its folder was deleted"


def _stream(spark: SparkSession, folder: Path, query: str) -> DataFrame:
    spark.sql(query).write.parquet(str(folder / "rows"))
    return spark.readStream.schema(spark.sql(query).schema).parquet(str(folder / "rows"))


def _streamed(spark: SparkSession, folder: Path, query: str = ROWS, **options: str) -> None:
    stream = _stream(spark, folder, query).writeStream.format("lance").options(**options)
    stream = stream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    stream.toTable("told").awaitTermination()


def _each_batch(spark: SparkSession, folder: Path) -> None:
    stream = _stream(spark, folder, ROWS).writeStream.foreachBatch(lambda batch, _: batch.writeTo("told").append())
    stream = stream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    stream.start().awaitTermination()


def _table(spark: SparkSession) -> LanceTable:
    return LanceTable.forName(spark, "told")


def _merged(spark: SparkSession, query: str, evolves: bool) -> None:
    merge = _table(spark).alias("t").merge(spark.sql(query).alias("s"), "t.id = s.id").whenNotMatchedInsertAll()
    (merge.withSchemaEvolution() if evolves else merge).execute()


@lance_udf("bigint")
def square(id: int) -> int:
    return id * id


@lance_udf("bigint")
def failing(id: int) -> int:
    raise ValueError(f"no result for {id}")


def _addresses(spark: SparkSession, value: str) -> None:
    rows = spark.read.option("with_row_address", True).table("told")
    rows.selectExpr("_rowaddr", value).createOrReplaceTempView("addressed")


def _columns_added(spark: SparkSession, _: Path) -> None:
    _addresses(spark, "id * 3 AS w")
    spark.sql("ALTER TABLE told ADD COLUMNS w FROM addressed")


def _columns_updated(spark: SparkSession, _: Path) -> None:
    _addresses(spark, "id * 3 AS v")
    spark.sql("ALTER TABLE told UPDATE COLUMNS v FROM addressed")


FIRST_WRITES: dict[str, Door] = {
    "INSERT": lambda spark, _: spark.sql(f"INSERT INTO told {ROWS}"),
    "INSERT OVERWRITE": lambda spark, _: spark.sql(f"INSERT OVERWRITE told {ROWS}"),
    "INSERT REPLACE WHERE": lambda spark, _: spark.sql(f"INSERT INTO told REPLACE WHERE id = 1 {ROWS}"),
    "MERGE": lambda spark, _: spark.sql(f"MERGE INTO told t USING ({ROWS}) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"),
    "saveAsTable": lambda spark, _: spark.sql(ROWS).write.format("lance").mode("append").saveAsTable("told"),
    "writeTo": lambda spark, _: spark.sql(ROWS).writeTo("told").append(),
    "insertInto": lambda spark, _: spark.sql(ROWS).write.insertInto("told"),
    "toTable": _streamed,
    "foreachBatch": _each_batch,
    "TableBuilder": lambda spark, _: LanceTable.createOrReplace(spark).tableName("told").addColumn("id", "BIGINT").execute(),
}
"""They write the first version of a table that is declared."""

CHANGES: dict[str, Door] = {
    "UPDATE": lambda spark, _: spark.sql("UPDATE told SET v = 1 WHERE id = 1"),
    "DELETE": lambda spark, _: spark.sql("DELETE FROM told WHERE id = 1"),
    "ALTER TABLE": lambda spark, _: spark.sql("ALTER TABLE told ADD COLUMN w INT"),
    "delete": lambda spark, _: _table(spark).delete("id = 1"),
    "update": lambda spark, _: _table(spark).update("id = 1", {"v": "3"}),
    "merge": lambda spark, _: _merged(spark, "SELECT 9L AS id, 1L AS v", False),
    "UPDATE COLUMNS": _columns_updated,
}
"""They change a table that another writer has made at the location, like all of ALTERATIONS."""

ALTERATIONS: dict[str, Door] = {
    "dropColumns": lambda spark, _: _table(spark).dropColumns(["v"]),
    "renameColumn": lambda spark, _: _table(spark).renameColumn("v", "w"),
    "reorderColumns": lambda spark, _: _table(spark).reorderColumns(["v"]),
    "alterColumn": lambda spark, _: _table(spark).alterColumn("v", nullable=False, type="int"),
    "addColumns": lambda spark, _: _table(spark).addColumns({"w": "id + 1"}),
    "addColumns of a frame": lambda spark, _: _table(spark).addColumns(spark.sql("SELECT 1L AS id, 'a' AS w"), on="id"),
    "backfill": lambda spark, _: _table(spark).backfill("w", square),
    "merge with schema evolution": lambda spark, _: _merged(spark, "SELECT 9L AS id, 'a' AS w", True),
    "restoreToVersion": lambda spark, _: _table(spark).restoreToVersion(1),
    "TableBuilder": lambda spark, _: LanceTable.createOrReplace(spark).tableName("told").addColumn("q", "STRING").execute(),
    "RESTORE": lambda spark, _: spark.sql("RESTORE told TO VERSION AS OF 1"),
    "CALL restore": lambda spark, _: spark.sql("CALL calls.system.restore('spark_catalog.planner.told', 1)"),
    "SET NOT NULL": lambda spark, _: spark.sql("ALTER TABLE told ALTER COLUMN v SET NOT NULL"),
    "ADD COLUMNS FROM": _columns_added,
    "toTable with mergeSchema": lambda spark, folder: _streamed(spark, folder, "SELECT 9L AS id, 1L AS v, 'a' AS w", mergeSchema="true"),
}
"""They change the columns of a table."""


def _made(path: str) -> None:
    """A table at a path, whose first version has the column `v` only."""
    Dataset.write(path, pa.table({"v": [4, 5]})).add_columns({"id": "v - 3"}).reorder_columns(["id"])


@pytest.mark.parametrize("door", FIRST_WRITES)
def test_a_table_whose_folder_is_lost_after_the_first_write_is_not_empty(sql: Sql, spark: SparkSession, tmp_path: Path, door: str) -> None:
    path = tmp_path / "told.lance"
    sql(f"CREATE TABLE told ({COLUMNS}) USING lance LOCATION '{path}'")
    assert sql("SELECT * FROM told") == []
    FIRST_WRITES[door](spark, tmp_path)
    shutil.rmtree(path)
    with pytest.raises(SPARK_ERRORS, match=LOST):
        sql("SELECT * FROM told")


@pytest.mark.parametrize("door", [*CHANGES, "dropColumns", "addColumns", "backfill", "CALL restore", "ADD COLUMNS FROM"])
def test_a_table_whose_folder_is_lost_after_a_change_is_not_empty(sql: Sql, spark: SparkSession, tmp_path: Path, door: str) -> None:
    path = tmp_path / "told.lance"
    _made(str(path))
    lance_spark.catalog(spark, "calls")
    sql(f"CREATE TABLE told ({COLUMNS}) USING lance LOCATION '{path}'")
    {**ALTERATIONS, **CHANGES}[door](spark, tmp_path)
    shutil.rmtree(path)
    with pytest.raises(SPARK_ERRORS, match=LOST):
        sql("SELECT * FROM told")


@pytest.mark.parametrize("door", ALTERATIONS)
def test_columns_that_change_are_those_of_the_catalog(sql: Sql, spark: SparkSession, tmp_path: Path, door: str) -> None:
    path = str(tmp_path / "told.lance")
    _made(path)
    lance_spark.catalog(spark, "calls")
    sql(f"CREATE TABLE told USING lance LOCATION '{path}'")
    before = spark.table("told").schema
    ALTERATIONS[door](spark, tmp_path)
    after = spark.read.format("lance").load(path).schema
    assert (spark.table("told").schema, after) == (after, after)
    assert after != before, door


def test_a_backfill_that_fails_leaves_the_column_that_it_has_made_in_the_catalog(sql: Sql, spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "told.lance")
    _made(path)
    sql(f"CREATE TABLE told USING lance LOCATION '{path}'")
    with pytest.raises(lance_spark.errors.FunctionFailedError):
        _table(spark).backfill("w", failing)
    assert spark.table("told").schema == spark.read.format("lance").load(path).schema
