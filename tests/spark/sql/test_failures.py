"""A row-level command that fails changes nothing and leaves no files, and its error says what to do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lance_spark import Dataset
from tests.spark.sql.tables import Table, changed
from tests.spark_session import SPARK_ERRORS


@pytest.fixture
def other_writer(spark: SparkSession, table: Table) -> Iterator[None]:
    """The function `meanwhile(s, condition)`: while a command computes `s`, another writer deletes rows."""
    uri = table.uri

    def meanwhile(s: str, condition: str) -> str:
        Dataset.open(uri).delete(condition)
        return s + "~"

    spark.udf.register("meanwhile", meanwhile, "string")
    yield
    spark.sql("DROP TEMPORARY FUNCTION meanwhile")


@pytest.mark.usefixtures("other_writer")
def test_rows_that_another_writer_changes_meanwhile_are_a_conflict(table: Table) -> None:
    files = table.files()
    with pytest.raises(SPARK_ERRORS, match=r"UPDATE based on version 2 was not committed.*run the statement again"):
        table.run("UPDATE t SET s = meanwhile(s, 'id = 3') WHERE id = 3")
    assert table.rows() == changed(lambda r: None if r[0] == 3 else r)
    assert {name for name in table.files() - files if name.endswith(".lance")} == set()


@pytest.mark.usefixtures("other_writer")
def test_other_rows_that_another_writer_changes_meanwhile_stay_changed(table: Table) -> None:
    change = table.run("UPDATE t SET s = meanwhile(s, 'id = 4') WHERE id = 3")
    assert table.rows() == changed(lambda r: {3: (3, 0, "s3~"), 4: None}.get(r[0], r))
    assert change.version == 4


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE t SET s = raise_error('no') WHERE id > 1",
        "MERGE INTO t USING range(4, 20) x ON t.id = x.id WHEN MATCHED THEN UPDATE SET k = 1 WHEN NOT MATCHED THEN "
        "INSERT (id, k, s) VALUES (x.id, 0, IF(x.id = 19, raise_error('no'), 'new'))",
    ],
)
def test_a_task_that_fails_leaves_no_file(table: Table, statement: str) -> None:
    before = table.files()
    with pytest.raises(SPARK_ERRORS, match="no"):
        table.run(statement)
    assert table.files() == before
    assert table.version() == 2
    assert table.rows() == changed(lambda r: r)


def test_without_the_rule_a_command_fails_and_changes_nothing(table: Table) -> None:
    table.spark.conf.set("spark.sql.optimizer.excludedRules", "lance_spark.RowLevelCommands")
    try:
        with pytest.raises(SPARK_ERRORS, match=r"needs the optimizer rule lance_spark\.RowLevelCommands.*nothing was changed"):
            table.run("DELETE FROM t WHERE id = 3")
    finally:
        table.spark.conf.unset("spark.sql.optimizer.excludedRules")
    assert table.version() == 2


@pytest.mark.parametrize("option", ["version", "limit", "filter", "with_row_address"])
def test_a_view_of_less_than_the_latest_table_cannot_be_changed(table: Table, option: str) -> None:
    value = {"version": "2", "limit": "3", "filter": "id > 3", "with_row_address": "true"}[option]
    table.spark.read.format("lance").option(option, value).load(table.uri).createOrReplaceTempView("v")
    for statement in ("DELETE FROM v WHERE id = 4", "DELETE FROM v", "UPDATE v SET k = 1"):
        with pytest.raises(SPARK_ERRORS, match=rf"the option '{option}' applies only to reads"):
            table.spark.sql(statement)
    assert table.version() == 2


def test_a_view_with_a_condition_cannot_be_changed(table: Table) -> None:
    table.spark.sql("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT * FROM t WHERE id < 5")
    with pytest.raises(SPARK_ERRORS, match="does not support"):
        table.spark.sql("DELETE FROM v WHERE id = 1")


def test_schema_evolution_loses_no_column(table: Table) -> None:
    table.spark.sql(
        "MERGE WITH SCHEMA EVOLUTION INTO t USING (SELECT 1L AS id, 1L AS k, 's' AS s, 5 AS extra) x ON t.id = x.id "
        "WHEN MATCHED THEN UPDATE SET *"
    )
    assert table.spark.sql("SELECT id, s, extra FROM t WHERE extra IS NOT NULL").collect() == [(1, "s", 5)]


def test_a_view_of_a_partitioned_namespace_is_changed(spark: SparkSession, uri: str) -> None:
    from lance_spark import create_partitioned_namespace

    create_partitioned_namespace(uri, spark.range(4).selectExpr("id", "id % 2 AS p").schema, ["p"])
    spark.range(4).selectExpr("id", "id % 2 AS p").write.format("lance").mode("append").save(uri)
    spark.read.format("lance").load(uri).createOrReplaceTempView("v")
    spark.sql("DELETE FROM v WHERE id = 1")
    assert sorted(row.id for row in spark.table("v").collect()) == [0, 2, 3]


def test_appends_are_as_before(table: Table) -> None:
    table.spark.sql("INSERT INTO t VALUES (20, 0, 'new')")
    table.spark.table("t").where("id = 20").selectExpr("id + 1 AS id", "k", "s").writeTo("t").append()
    assert [row[0] for row in table.rows()][-2:] == [20, 21]
