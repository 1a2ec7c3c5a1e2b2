"""Which columns of a new table are nullable: all that nobody has declared to be otherwise, whatever Spark infers of the first rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from lance_spark import Dataset, LanceTable

pytestmark = pytest.mark.xdist_group("nullability")
Create = Callable[[DataFrame, str, str], Any]
"""Makes a table of rows at a path; or under a name in the SQL catalog, or in the session catalog."""
ROWS = "SELECT id, 1 AS one, named_struct('x', 1, 'y', array(named_struct('z', 2))) AS s, array(1) AS a, map('k', 1) AS m FROM range(2)"


def _query(df: DataFrame) -> str:
    df.createOrReplaceTempView("first_rows")
    return "SELECT * FROM first_rows"


def _streamed(df: DataFrame, path: str) -> Any:
    df.write.parquet(f"{path}.in")
    stream = df.sparkSession.readStream.schema(df.schema).parquet(f"{path}.in")
    return stream.selectExpr("*", "2 AS two").writeStream.option("checkpointLocation", f"{path}.checkpoint").trigger(availableNow=True)


def _with_new_columns(df: DataFrame, path: str) -> None:
    df.select("id").write.format("lance").mode("append").save(path)
    df.write.format("lance").mode("append").option("mergeSchema", "true").save(path)


def _merged(df: DataFrame, path: str) -> None:
    df.select("id").write.format("lance").mode("append").save(path)
    table = LanceTable.forPath(df.sparkSession, path).alias("t")
    table.merge(df.alias("s"), "t.id = s.id").withSchemaEvolution().whenMatchedUpdateAll().execute()


CREATE: dict[str, Create] = {
    "save append": lambda df, path, name: df.write.format("lance").mode("append").save(path),
    "save overwrite": lambda df, path, name: df.write.format("lance").mode("overwrite").save(path),
    "lance_spark.write": lambda df, path, name: lance_spark.write(df, path),
    "a column of mergeSchema": lambda df, path, name: _with_new_columns(df, path),
    "a column of a merge": lambda df, path, name: _merged(df, path),
    "stream": lambda df, path, name: _streamed(df, path).format("lance").start(path).awaitTermination(),
    "stream to a name": lambda df, path, name: _streamed(df, path).format("lance").toTable(f"nulls.{name}").awaitTermination(),
    "saveAsTable": lambda df, path, name: df.write.format("lance").saveAsTable(f"nulls.{name}"),
    "saveAsTable in the session catalog": lambda df, path, name: df.write.format("lance").option("path", path).saveAsTable(name),
    "writeTo create": lambda df, path, name: df.writeTo(f"nulls.{name}").create(),
    "writeTo createOrReplace": lambda df, path, name: df.writeTo(f"nulls.{name}").createOrReplace(),
    "AS SELECT": lambda df, path, name: df.sparkSession.sql(f"CREATE TABLE nulls.{name} AS {_query(df)}"),
    "REPLACE AS SELECT": lambda df, path, name: [
        df.sparkSession.sql(f"CREATE TABLE nulls.{name} (one STRING)"),
        df.sparkSession.sql(f"REPLACE TABLE nulls.{name} AS {_query(df)}"),
    ],
    "AS SELECT in the session catalog": lambda df, path, name: df.sparkSession.sql(
        f"CREATE TABLE {name} USING lance LOCATION '{path}' AS {_query(df)}"
    ),
}


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("nulls")
    lance_spark.catalog(spark, "nulls", root=str(root))
    return root


def required(fields: list[pa.Field], path: str = "") -> list[str]:
    """The fields that may not be null, but for keys of maps."""
    found = []
    for f in fields:
        name = f"{path}{f.name}"
        found += [] if f.nullable else [name]
        if pa.types.is_map(f.type):
            found += required([f.type.item_field], f"{name}.")
        elif f.type.num_fields:
            found += required([f.type.field(i) for i in range(f.type.num_fields)], f"{name}.")
    return found


@pytest.mark.parametrize("door", CREATE)
def test_columns_of_a_new_table_are_nullable(door: str, spark: SparkSession, lake: Path) -> None:
    name = "n_" + "".join(c if c.isalnum() else "_" for c in door)
    rows = spark.sql(ROWS)
    assert not rows.schema["one"].nullable
    CREATE[door](rows, str(lake / f"{name}.lance"), name)
    assert required(list(Dataset.open(lake / f"{name}.lance").schema)) == []
    spark.sql(f"DROP TABLE IF EXISTS spark_catalog.default.{name}")


def test_the_rows_of_the_next_day_may_have_nulls(spark: SparkSession, uri: str) -> None:
    spark.range(2).selectExpr("id", "'x' AS kind").write.format("lance").mode("append").save(uri)
    spark.sql("SELECT CAST(NULL AS BIGINT) AS id, CAST(NULL AS STRING) AS kind").write.format("lance").mode("append").save(uri)
    assert Dataset.open(uri).count_rows() == 3


def test_what_is_declared_stays(spark: SparkSession, lake: Path) -> None:
    spark.sql("CREATE TABLE nulls.declared (id BIGINT NOT NULL, s STRUCT<x: INT NOT NULL>)")
    spark.sql(f"CREATE TABLE declared (id BIGINT NOT NULL, s STRUCT<x: INT NOT NULL>) USING lance LOCATION '{lake}/session.lance'")
    for name in ("nulls.declared", "declared"):
        spark.sql(f"INSERT INTO {name} SELECT 1, named_struct('x', 1)")
        assert not spark.table(name).schema["id"].nullable
        spark.sql("SELECT 2L AS id, named_struct('x', 1) AS s").write.mode("append").format("lance").saveAsTable(name)
    assert required(list(Dataset.open(lake / "session.lance").schema)) == ["id", "s.x"]
    assert required(list(Dataset.open(lake / "declared.lance").schema)) == ["id", "s.x"]
    spark.sql("DROP TABLE declared")
    table = Dataset.write(lake / "arrow.lance", pa.table({"id": [1]}, schema=pa.schema([pa.field("id", pa.int64(), False)])))
    assert required(list(table.schema)) == ["id"], "Arrow data says what may be null"
    spark.range(3).write.format("lance").mode("overwrite").option("overwriteSchema", "false").save(table.uri)
    assert required(list(Dataset.open(table.uri).schema)) == ["id"]
