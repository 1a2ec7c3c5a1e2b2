"""Tables whose folder was deleted by other means than DROP TABLE, and tables that are only declared: the catalog goes on."""

from __future__ import annotations

import re
import shutil

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.spark.catalog.lakes import Lake
from tests.spark.plans import Sql
from tests.spark_session import SPARK_ERRORS

NAMES = ("top", "ns.t")
NOT_FOUND = "TABLE_OR_VIEW_NOT_FOUND|UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY"
"""Spark takes a name of two parts that starts with the name of a format for a path."""


def lost(own: Lake, name: str) -> str:
    """Create a table with three rows, and delete its folder."""
    own.sql(f"CREATE TABLE lance.{name} AS SELECT id FROM range(3)")
    location = own.location(name)
    shutil.rmtree(location)
    return location


@pytest.mark.parametrize("name", NAMES)
def test_statements_say_that_the_files_are_missing_and_drop_table_removes_the_name(own: Lake, name: str) -> None:
    for statement in ("DROP TABLE", "DROP TABLE IF EXISTS"):
        location = lost(own, name)
        for query in (f"SELECT * FROM lance.{name}", f"INSERT INTO lance.{name} VALUES (1)", f"SELECT * FROM lance.{name}.files"):
            told = f"the files of the table '{name}' at {re.escape(location)} are missing.* DROP TABLE removes it"
            with pytest.raises(SPARK_ERRORS, match=told):
                own.sql(query)
        own.sql(f"{statement} lance.{name}")
        with pytest.raises(AnalysisException, match=NOT_FOUND):
            own.sql(f"SELECT * FROM lance.{name}")
        with pytest.raises(AnalysisException, match=NOT_FOUND):
            own.sql(f"DROP TABLE lance.{name}")
        own.sql(f"DROP TABLE IF EXISTS lance.{name}")
    own.sql("DROP NAMESPACE lance.ns")
    assert own.files() == set()


@pytest.mark.matrix
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "statement",
    ["CREATE TABLE {} AS SELECT 7 AS a", "CREATE OR REPLACE TABLE {} AS SELECT 7 AS a", "CREATE TABLE IF NOT EXISTS {} (a INT)"],
)
def test_a_table_whose_files_are_gone_is_created_again(own: Lake, name: str, statement: str) -> None:
    lost(own, name)
    own.sql(statement.format(f"lance.{name}"))
    assert own.pylance(name) == ([{"a": 7}] if "SELECT" in statement else [])
    assert own.versions(name) == [1]


def test_a_failed_statement_leaves_a_name_without_files_that_can_be_dropped(own: Lake) -> None:
    for name in NAMES:
        lost(own, name)
        with pytest.raises(SPARK_ERRORS, match="stop here"):
            own.sql(f"CREATE TABLE lance.{name} AS SELECT raise_error('stop here') AS a FROM range(0, 3, 1, 1)")
        own.sql(f"DROP TABLE IF EXISTS lance.{name}")
        own.spark.range(2).writeTo(f"lance.{name}").create()
        assert own.pylance(name) == [{"id": 0}, {"id": 1}]


def test_another_table_takes_the_name_of_one_that_is_dropped(own: Lake) -> None:
    own.sql("CREATE TABLE lance.other AS SELECT 5 AS b")
    lost(own, "top")
    own.sql("ALTER TABLE lance.other RENAME TO lance.top")
    lost(own, "ns.t")
    with pytest.raises(SPARK_ERRORS, match="already exists"):
        own.sql("ALTER TABLE lance.top RENAME TO lance.ns.t")
    own.sql("DROP TABLE lance.ns.t")
    own.sql("ALTER TABLE lance.top RENAME TO lance.ns.t")
    assert own.sql("SELECT * FROM lance.ns.t") == [(5,)]


def test_a_namespace_is_dropped_with_tables_whose_files_are_gone(own: Lake) -> None:
    lost(own, "ns.t")
    own.sql("DROP NAMESPACE lance.ns CASCADE")
    assert own.sql("SHOW NAMESPACES IN lance") == []


def test_a_table_that_is_only_declared_is_dropped_or_created(own: Lake) -> None:
    for name in NAMES:
        own.namespace.declare_table(name.split("."))
        with pytest.raises(AnalysisException, match=NOT_FOUND):
            own.sql(f"SELECT * FROM lance.{name}")
        own.sql(f"DROP TABLE lance.{name}")
        assert not own.namespace.table_exists(name.split("."))
        own.namespace.declare_table(name.split("."))
        own.sql(f"CREATE TABLE lance.{name} AS SELECT 7 AS a")
        assert own.pylance(name) == [{"a": 7}]


def test_a_table_of_the_session_catalog_is_dropped_without_its_files(spark: SparkSession, own: Lake) -> None:
    place = own.root / "elsewhere"
    spark.sql(f"CREATE TABLE lost USING lance LOCATION '{place}' AS SELECT 7 AS a")
    shutil.rmtree(place)
    spark.sql("DROP TABLE lost")
    spark.sql(f"CREATE TABLE lost USING lance LOCATION '{place}' AS SELECT 8 AS a")
    assert spark.sql("SELECT a FROM lost").collect() == [(8,)]
    spark.sql("DROP TABLE lost")


def test_a_managed_table_of_the_session_catalog_without_its_folder_is_lost_not_empty(spark: SparkSession, sql: Sql) -> None:
    told = "the files of the table at .*/t are missing: its folder was deleted. DROP TABLE removes it"
    sql("CREATE TABLE t (a BIGINT) USING lance")
    assert sql("SELECT * FROM t") == []  # nothing was written
    for again in ("DROP TABLE t; CREATE TABLE t USING lance AS SELECT 8L AS a", "CREATE OR REPLACE TABLE t USING lance AS SELECT 8L AS a"):
        sql("INSERT INTO t VALUES (7)")
        shutil.rmtree(spark.sql("DESCRIBE DETAIL t").collect()[0].location)
        for statement in ("SELECT * FROM t", "INSERT INTO t VALUES (1)", "DELETE FROM t WHERE a = 7"):
            with pytest.raises(SPARK_ERRORS, match=told):
                sql(statement)
        for statement in again.split("; "):
            sql(statement)
        assert sql("SELECT * FROM t") == [(8,)]
