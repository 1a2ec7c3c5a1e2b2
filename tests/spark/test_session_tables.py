"""Tables of the session catalog before their first rows, at versions, after RESTORE, and when their files are gone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lance_spark import Dataset
from tests.spark.catalog.lakes import Lake, lake
from tests.spark.plans import Sql
from tests.spark_session import SPARK_ERRORS

ALTERATIONS = {
    "ADD COLUMNS (x INT)": "id INT, s STRING, x INT",
    "RENAME COLUMN s TO t": "id INT, t STRING",
    "DROP COLUMN s": "id INT",
    "ALTER COLUMN id TYPE BIGINT": "id BIGINT, s STRING",
    "ALTER COLUMN id SET NOT NULL": "id INT NOT NULL, s STRING",
    "REPLACE COLUMNS (id BIGINT, q STRING)": "id BIGINT, q STRING",
}
REFUSED = (
    "OPTIMIZE fresh",
    "VACUUM fresh",
    "RESTORE fresh TO VERSION AS OF 1",
    "DESCRIBE HISTORY fresh",
    "SHOW TAGS FROM fresh",
    "ALTER TABLE fresh CREATE TAG x",
    "CREATE INDEX i ON fresh (id)",
    "ALTER TABLE fresh ADD CONSTRAINT c CHECK (id > 0)",
)
TRAVELS = (
    "SELECT id FROM travelled VERSION AS OF 1",
    "SELECT id FROM planner.travelled VERSION AS OF 'first'",
    "SELECT t.id FROM spark_catalog.planner.travelled FOR VERSION AS OF 1 AS t WHERE t._rowid >= 0",
    "SELECT id FROM travelled TIMESTAMP AS OF '{between}'",
    "SELECT id FROM travelled TIMESTAMP AS OF CAST('{between}' AS TIMESTAMP) + INTERVAL 1 MICROSECOND",
    "WITH c AS (SELECT * FROM travelled VERSION AS OF 1) SELECT id FROM c",
    "SELECT id FROM travelled WHERE id IN (SELECT id FROM travelled VERSION AS OF 1)",
)


@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_a_table_is_altered_before_its_first_rows(sql: Sql, spark: SparkSession, alteration: str) -> None:
    sql("CREATE TABLE fresh (id INT, s STRING) USING lance")
    sql(f"ALTER TABLE fresh {alteration}")
    expected = spark.createDataFrame([], ALTERATIONS[alteration]).schema
    assert spark.table("fresh").schema.simpleString() == expected.simpleString()
    values = ", ".join("1" if f.dataType.simpleString() != "string" else "'a'" for f in expected)
    sql(f"INSERT INTO fresh VALUES ({values})")
    assert len(sql("SELECT * FROM fresh")) == 1
    if "NOT NULL" in alteration:
        with pytest.raises(SPARK_ERRORS, match="NULL"):
            sql("INSERT INTO fresh VALUES (NULL, 'a')")


def test_statements_before_the_first_rows_say_that_there_is_no_version(sql: Sql) -> None:
    sql("CREATE TABLE fresh (id INT, s STRING) USING lance")
    for statement in REFUSED:
        with pytest.raises(SPARK_ERRORS, match=r"planner\.fresh has no version before its first rows"):
            sql(statement)
    assert sql("SELECT * FROM fresh") == []


def test_rows_are_replaced_by_a_condition(sql: Sql, spark: SparkSession) -> None:
    sql("CREATE TABLE replaced (id INT, c CHAR(3)) USING lance")
    sql("INSERT INTO replaced REPLACE WHERE id = 9 VALUES (1, 'a')")
    sql("INSERT INTO replaced VALUES (2, 'b'), (3, NULL)")
    sql("INSERT INTO replaced REPLACE WHERE id >= 2 AND c IS NOT NULL VALUES (7, 'z')")
    spark.sql("SELECT 8 AS id, 'y' AS c").writeTo("replaced").overwrite(F.col("id") == 1)
    assert sorted(sql("SELECT * FROM replaced"), key=str) == [(3, None), (7, "z  "), (8, "y  ")]
    with pytest.raises(SPARK_ERRORS, match=r"cannot translate expression|overwrite"):
        sql("INSERT INTO replaced REPLACE WHERE c RLIKE 'q' VALUES (1, 'z')")


def test_a_version_or_a_time_of_a_table(sql: Sql, spark: SparkSession) -> None:
    sql("CREATE TABLE travelled (id INT) USING lance")
    sql("INSERT INTO travelled VALUES (1)")
    sql("ALTER TABLE travelled CREATE TAG first")
    sql("INSERT INTO travelled VALUES (2)")
    sql("ALTER TABLE travelled ADD COLUMN x INT")
    history = spark.sql("DESCRIBE HISTORY travelled").where("version = 1")
    [(between,)] = history.selectExpr("CAST(timestamp + INTERVAL 1 MICROSECOND AS STRING)").collect()
    for query in TRAVELS:
        assert sql(query.format(between=between)) == [(1,)], query
    assert spark.sql("SELECT * FROM travelled VERSION AS OF 1").columns == ["id"]
    assert spark.read.option("versionAsOf", 1).table("travelled").count() == 1
    assert sql("SELECT count(*) FROM travelled VERSION AS OF 1 AS a JOIN travelled AS b ON a.id = b.id") == [(1,)]
    with pytest.raises(SPARK_ERRORS, match="has no version 99"):
        sql("SELECT * FROM travelled VERSION AS OF 99")
    spark.createDataFrame([(1,)], "id INT").createOrReplaceTempView("travelled")
    with pytest.raises(SPARK_ERRORS, match="TIME_TRAVEL"):
        sql("SELECT * FROM travelled VERSION AS OF 1")
    spark.catalog.dropTempView("travelled")


@pytest.fixture
def own(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    """The catalog `lance` over an empty directory namespace."""
    with lake(spark, tmp_path / "lake") as made:
        yield made


@pytest.mark.parametrize("name", ["planner.cached", "lance.cached"])
def test_a_cached_table_shows_what_is_restored(own: Lake, sql: Sql, name: str) -> None:
    sql(f"CREATE TABLE {name} (id INT) USING lance")
    sql(f"INSERT INTO {name} VALUES (1)")
    sql(f"INSERT INTO {name} VALUES (2)")
    sql(f"CACHE TABLE {name}")
    latest, first = (3, 2) if name.startswith("lance") else (2, 1)
    assert sql(f"SELECT count(*) FROM {name}") == [(2,)]
    sql(f"RESTORE TABLE {name} TO VERSION AS OF {first}")
    assert sql(f"SELECT * FROM {name}") == [(1,)]
    full = name.replace("planner", "spark_catalog.planner")
    sql(f"CALL lance.system.restore('{full}', {latest})")
    assert sql(f"SELECT count(*) FROM {name}") == [(2,)]
    sql(f"UNCACHE TABLE {name}")


def test_a_table_with_a_location_that_is_lost(sql: Sql, tmp_path: Path) -> None:
    location = str(tmp_path / "lost.lance")
    sql(f"CREATE TABLE lost (id INT) USING lance LOCATION '{location}'")
    assert sql("SELECT * FROM lost") == []
    sql("INSERT INTO lost VALUES (1)")
    sql(f"CREATE TABLE declared USING lance LOCATION '{location}'")
    assert "lance_spark.written" not in str(sql("SHOW TBLPROPERTIES lost")) + str(sql("SHOW CREATE TABLE lost"))
    shutil.rmtree(location)
    told = "the files of the table at .* are missing: its folder was deleted"
    for statement in ("SELECT * FROM lost", "SELECT * FROM declared", "INSERT INTO lost VALUES (2)", "INSERT OVERWRITE lost VALUES (2)",
                      "ALTER TABLE lost ADD COLUMN x INT", "OPTIMIZE lost"):  # fmt: skip
        with pytest.raises(SPARK_ERRORS, match=told):
            sql(statement)
    sql("CREATE OR REPLACE TABLE lost USING lance AS SELECT 5 AS id")
    assert sql("SELECT * FROM lost") == [(5,)]
    sql("DROP TABLE lost")
    sql("DROP TABLE declared")


def test_insert_overwrite_keeps_a_column_that_another_writer_has_added(sql: Sql, spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "kept.lance")
    sql(f"CREATE TABLE kept (id INT) USING lance LOCATION '{path}'")
    sql("INSERT INTO kept VALUES (1)")
    spark.read.format("lance").load(path).createOrReplaceTempView("kept_view")
    for target in ("kept", "kept_view"):
        added = spark.createDataFrame([(2, 3)], f"id INT, {target}_x INT")
        added.write.format("lance").mode("append").option("mergeSchema", True).save(path)
        sql(f"INSERT OVERWRITE {target} (id) VALUES (4)" if target == "kept" else f"INSERT OVERWRITE {target} VALUES (4)")
        assert f"{target}_x" in Dataset.open(path).schema.names
        assert [row["id"] for row in Dataset.open(path).to_table().to_pylist()] == [4]
    spark.range(1).write.format("lance").mode("overwrite").save(path)
    assert Dataset.open(path).schema.names == ["id"], "mode overwrite of a path brings its own columns"
    spark.catalog.dropTempView("kept_view")


@pytest.mark.matrix
@pytest.mark.parametrize(
    "option", [("path", "/elsewhere"), ("paths", '["/elsewhere"]'), ("table", "x"), ("namespace", "/elsewhere")], ids=str
)
@pytest.mark.parametrize("name", ["planner.placed", "lance.placed"])
def test_no_option_of_a_statement_names_another_table(own: Lake, sql: Sql, spark: SparkSession, name: str, option: tuple[str, str]) -> None:
    sql(f"CREATE OR REPLACE TABLE {name} (id INT) USING lance")
    sql(f"INSERT INTO {name} VALUES (1)")
    assert [tuple(row) for row in spark.read.option(*option).table(name).collect()] == [(1,)]


RETYPED = {
    "a collation less": ("STRING COLLATE UNICODE_CI", "STRING"),
    "a collation more": ("STRING", "STRING COLLATE UNICODE_CI"),
    "another collation": ("STRING COLLATE UNICODE_CI", "STRING COLLATE UTF8_LCASE"),
    "a collation less in a struct": ("STRUCT<a: STRING COLLATE UNICODE_CI>", "STRUCT<a: STRING>"),
    "a collation less in an array": ("ARRAY<STRING COLLATE UNICODE_CI>", "ARRAY<STRING>"),
    "another type": ("INTERVAL HOUR", "INT"),
}


@pytest.mark.parametrize("change", RETYPED)
def test_a_column_has_the_type_that_another_writer_gives_it(sql: Sql, spark: SparkSession, tmp_path: Path, change: str) -> None:
    declared, written = RETYPED[change]
    path = str(tmp_path / "retyped.lance")
    sql(f"CREATE OR REPLACE TABLE retyped (c {declared}) USING lance LOCATION '{path}'")
    sql("INSERT INTO retyped SELECT NULL")
    spark.sql(f"SELECT CAST(NULL AS {written}) AS c").write.format("lance").mode("overwrite").save(path)
    found = spark.read.format("lance").load(path).schema["c"].dataType
    assert spark.table("retyped").schema["c"].dataType == found


@pytest.mark.parametrize("declared", ["INTERVAL HOUR", "STRUCT<a: INTERVAL HOUR, b: STRING COLLATE UNICODE_CI>", "ARRAY<INTERVAL HOUR>"])
def test_a_column_keeps_the_fields_of_an_interval_that_it_declares(sql: Sql, spark: SparkSession, declared: str) -> None:
    sql(f"CREATE OR REPLACE TABLE of_intervals (c {declared}) USING lance")
    expected = spark.table("of_intervals").schema["c"].dataType
    sql("INSERT INTO of_intervals SELECT NULL")
    assert spark.table("of_intervals").schema["c"].dataType == expected
    assert "hour" in expected.simpleString()
    assert "day" not in expected.simpleString()
