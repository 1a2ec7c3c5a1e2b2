"""What a statement declares of columns in the session catalog is in the table, for all doors, however it gets its first rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset
from lance_spark.errors import SchemaMismatchError
from tests.spark.plans import Sql
from tests.spark_session import SPARK_ERRORS, SPARK_VERSION

pytestmark = pytest.mark.skipif(SPARK_VERSION < (4, 1), reason="Spark 4.0 fills no columns that an INSERT into its own catalog leaves out")

COLUMNS = "id INT, c CHAR(3) COMMENT 'three', n INT DEFAULT 2 + 5"
ROWS = "SELECT 1 AS id, 'a' AS c, 5 AS n"


def _streamed(spark: SparkSession, folder: Path) -> None:
    spark.sql(ROWS).write.parquet(str(folder / "rows"))
    stream = spark.readStream.schema("id INT, c STRING, n INT").parquet(str(folder / "rows")).writeStream
    stream = stream.format("lance").option("checkpointLocation", str(folder / "checkpoint"))
    stream.trigger(availableNow=True).toTable("declared").awaitTermination()


FIRST_WRITES: dict[str, Callable[[SparkSession, Path], object]] = {
    "INSERT": lambda spark, _: spark.sql(f"INSERT INTO declared {ROWS}"),
    "INSERT of some columns": lambda spark, _: spark.sql("INSERT INTO declared (c, id) VALUES ('a', 1)"),
    "INSERT OVERWRITE": lambda spark, _: spark.sql(f"INSERT OVERWRITE declared {ROWS}"),
    "INSERT REPLACE WHERE": lambda spark, _: spark.sql(f"INSERT INTO declared REPLACE WHERE id = 1 {ROWS}"),
    "MERGE": lambda spark, _: spark.sql(f"MERGE INTO declared t USING ({ROWS}) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"),
    "saveAsTable": lambda spark, _: spark.sql(ROWS).write.format("lance").mode("append").saveAsTable("declared"),
    "writeTo": lambda spark, _: spark.sql(ROWS).writeTo("declared").append(),
    "insertInto": lambda spark, _: spark.sql(ROWS).write.insertInto("declared"),
    "writeStream": _streamed,
    "REPLACE TABLE": lambda spark, _: spark.sql(f"REPLACE TABLE declared ({COLUMNS}) USING lance"),
    "REPLACE TABLE of other columns": lambda spark, _: (
        spark.sql("INSERT INTO declared VALUES (9, 'z', 9)"),
        spark.sql("REPLACE TABLE declared (id INT NOT NULL, c CHAR(9)) USING lance"),
        spark.sql(f"REPLACE TABLE declared ({COLUMNS}) USING lance"),
    ),
}


@pytest.mark.parametrize("write", FIRST_WRITES)
def test_the_table_has_what_is_declared(sql: Sql, spark: SparkSession, tmp_path: Path, write: str) -> None:
    uri = str(tmp_path / "declared.lance")
    sql("DROP TABLE IF EXISTS declared")
    sql(f"CREATE TABLE declared ({COLUMNS}) USING lance LOCATION '{uri}'")
    FIRST_WRITES[write](spark, tmp_path)
    table = Dataset.open(uri)
    assert table.schema.field("c").metadata[b"comment"] == b"three"
    table = table.insert(pa.table({"id": pa.array([2], pa.int32()), "c": ["b"]}))
    assert table.to_table(filter="id = 2").to_pylist() == [{"id": 2, "c": "b  ", "n": 7}]
    with pytest.raises(SchemaMismatchError, match="3 characters"):
        table.insert(pa.table({"id": pa.array([3], pa.int32()), "c": ["long"]}))
    assert table.schema.field("id").nullable
    sql("INSERT INTO declared (id) VALUES (4)")
    assert sql("SELECT c, n FROM declared WHERE id = 4") == [(None, 7)]
    sql("DROP TABLE declared")


def test_alterations_of_a_column_are_in_the_table(sql: Sql, tmp_path: Path) -> None:
    uri = str(tmp_path / "declared.lance")
    sql(f"CREATE TABLE declared (id INT, c VARCHAR(3), n INT DEFAULT 7) USING lance LOCATION '{uri}'")
    sql("INSERT INTO declared VALUES (1, 'a', 1)")
    sql("ALTER TABLE declared ALTER COLUMN n SET DEFAULT 8")
    sql("ALTER TABLE declared ALTER COLUMN c TYPE STRING")
    sql("ALTER TABLE declared ALTER COLUMN id COMMENT 'key'")
    table = Dataset.open(uri).insert(pa.table({"id": pa.array([2], pa.int32()), "c": ["long text"]}))
    sql("INSERT INTO declared (id, c) VALUES (3, 'longer text')")
    assert table.schema.field("id").metadata[b"comment"] == b"key"
    sql("ALTER TABLE declared ALTER COLUMN n DROP DEFAULT")
    sql("INSERT INTO declared (id) VALUES (4)")
    rows = Dataset.open(uri).insert(pa.table({"id": pa.array([5], pa.int32())})).to_table().sort_by("id")
    assert rows["n"].to_pylist() == [1, 8, 8, None, None]
    with pytest.raises(SPARK_ERRORS, match="expected a literal"):
        sql("ALTER TABLE declared ALTER COLUMN n SET DEFAULT 4 + 1")
    sql("DROP TABLE declared")
