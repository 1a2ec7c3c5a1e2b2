"""Replacing a table of the session catalog is one commit, and failures before it change nothing."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lance_spark import Dataset
from tests.spark.plans import CATALOG_TABLES, Sql, settings
from tests.spark_session import SPARK_ERRORS

Replace = Callable[[DataFrame], None]
REPLACEMENTS: dict[str, Replace] = {
    "saveAsTable": lambda df: df.write.format("lance").mode("overwrite").saveAsTable("t"),
    "createOrReplace": lambda df: df.writeTo("t").using("lance").createOrReplace(),
    "replace": lambda df: df.writeTo("t").using("lance").replace(),
}
OVERWRITES: dict[str, Replace] = {"insertInto": lambda df: df.write.mode("overwrite").insertInto("t")}


@pytest.fixture(params=["managed", "external"])
def place(request: pytest.FixtureRequest, spark: SparkSession, sql: Sql, uri: str) -> str:
    """The location of the managed table t with three rows."""
    managed = f"{spark.conf.get('spark.sql.warehouse.dir')}/planner.db/t"
    location = f"LOCATION '{uri}'" if request.param == "external" else ""
    sql(f"CREATE TABLE t USING lance {location} AS SELECT id, id * 10 AS v FROM range(3)")
    return uri if request.param == "external" else managed.removeprefix("file:")


@pytest.fixture
def table(sql: Sql, uri: str) -> str:
    """The location of the external table t with three rows."""
    sql(f"CREATE TABLE t USING lance LOCATION '{uri}' AS SELECT id, id * 10 AS v FROM range(3)")
    return uri


def files(place: str) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in Path(place).rglob("*") if path.is_file())


def entry(spark: SparkSession, table: str = "t") -> dict[str, str]:
    """The entry of a table in the session catalog, without times."""
    jvm: Any = spark._jvm
    identifier = jvm.org.apache.spark.sql.catalyst.TableIdentifier(table, jvm.scala.Option.apply("planner"))
    found = spark._jsparkSession.sessionState().catalog().getTableMetadata(identifier)
    names, values = found.productElementNames(), found.productIterator()
    parts = {}
    while names.hasNext():
        parts[str(names.next())] = str(values.next())
    return {name: value for name, value in parts.items() if "Time" not in name and name != "identifier"}


@pytest.fixture
def in_one_commit(place: str) -> Iterator[None]:
    """Check that the test makes one version of the table t and keeps the first one."""
    yield
    assert [version.version for version in Dataset.open(place).versions()] == [1, 2]
    assert Dataset.open(place, version=1).count_rows() == 3


@pytest.mark.matrix
@pytest.mark.usefixtures("in_one_commit")
@pytest.mark.parametrize("replace", [*REPLACEMENTS.values(), *OVERWRITES.values()], ids=[*REPLACEMENTS, *OVERWRITES])
def test_a_table_is_replaced_by_a_query_on_itself(sql: Sql, spark: SparkSession, replace: Replace) -> None:
    replace(spark.table("t").selectExpr("id + 1 AS id", "v"))
    assert sql("SELECT * FROM t ORDER BY id") == [(1, 0), (2, 10), (3, 20)]


@pytest.mark.matrix
@pytest.mark.usefixtures("in_one_commit")
@pytest.mark.parametrize("statement", ["CREATE OR REPLACE TABLE t USING lance AS", "REPLACE TABLE t USING lance AS", "INSERT OVERWRITE t"])
def test_a_table_is_replaced_by_a_statement_on_itself(sql: Sql, statement: str) -> None:
    sql(f"{statement} SELECT l.id + r.id AS id, l.v FROM t l JOIN t r ON l.id = r.id WHERE l.v IN (SELECT v FROM t)")
    assert sql("SELECT * FROM t ORDER BY id") == [(0, 0), (2, 10), (4, 20)]


@pytest.mark.matrix
@pytest.mark.usefixtures("in_one_commit")
@pytest.mark.parametrize("replace", REPLACEMENTS.values(), ids=REPLACEMENTS)
def test_new_columns_are_those_of_the_query(sql: Sql, spark: SparkSession, replace: Replace) -> None:
    replace(spark.table("t").selectExpr("CAST(id AS string) AS id", "named_struct('x', v) AS st"))
    assert sql("SELECT id, st.x FROM t WHERE st.x >= 10 ORDER BY id") == [("1", 10), ("2", 20)]


@pytest.mark.usefixtures("place")
def test_new_columns_are_nullable(sql: Sql) -> None:
    sql("CREATE OR REPLACE TABLE t USING lance AS SELECT 1 AS id, named_struct('x', 2) AS st")
    sql("INSERT INTO t VALUES (NULL, NULL), (3, named_struct('x', NULL))")
    assert sql("SELECT count(*), count(id), count(st), count(st.x) FROM t") == [(3, 2, 2, 1)]


@pytest.mark.matrix
@pytest.mark.usefixtures("in_one_commit")
@pytest.mark.parametrize("replace", REPLACEMENTS.values(), ids=REPLACEMENTS)
def test_a_cached_frame_of_the_table_replaces_it(sql: Sql, spark: SparkSession, replace: Replace) -> None:
    frame = spark.table("t").cache()
    assert frame.count() == 3
    replace(frame.selectExpr("id + 1 AS id", "v"))
    assert sql("SELECT id FROM t ORDER BY id") == [(1,), (2,), (3,)]
    frame.unpersist()


FAILURES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "at once": lambda df: df.selectExpr("CAST(raise_error('no') AS BIGINT) AS id", "v"),
    "after some rows": lambda df: df.selectExpr("IF(id < 2, id, CAST(raise_error('no') AS BIGINT)) AS id", "v"),
    "in Python": lambda df: df.select(F.udf(lambda i: 1 // (i - 2), "bigint")("id").alias("id"), "v"),
}


@pytest.mark.matrix
@pytest.mark.parametrize("failing", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("replace", [*REPLACEMENTS.values(), *OVERWRITES.values()], ids=[*REPLACEMENTS, *OVERWRITES])
def test_a_query_that_fails_changes_nothing(
    sql: Sql, spark: SparkSession, place: str, replace: Replace, failing: Callable[[DataFrame], DataFrame]
) -> None:
    before = entry(spark), files(place)
    with pytest.raises(SPARK_ERRORS, match=r"no|ZeroDivisionError"):
        replace(failing(spark.table("t")))
    assert (entry(spark), files(place)) == before
    assert sql("SELECT * FROM t ORDER BY id") == [(0, 0), (1, 10), (2, 20)]


def test_a_query_that_cannot_be_analysed_changes_nothing(sql: Sql, spark: SparkSession, place: str) -> None:
    before = entry(spark), files(place)
    with pytest.raises(AnalysisException, match="nothing"):
        sql("CREATE OR REPLACE TABLE t USING lance AS SELECT nothing FROM t")
    with pytest.raises(SPARK_ERRORS, match="InvalidOptionError"):
        sql("CREATE OR REPLACE TABLE t USING lance OPTIONS (max_rows_per_file 'many') AS SELECT * FROM t")
    with pytest.raises(UnsupportedOperationException, match="lance tables have no partitions"):
        sql("CREATE OR REPLACE TABLE t USING lance PARTITIONED BY (id) AS SELECT * FROM t")
    assert (entry(spark), files(place)) == before


def test_a_commit_that_fails_changes_nothing(sql: Sql, spark: SparkSession, place: str) -> None:
    """During the write, a file replaces the folder of transactions."""
    transactions = Path(place, "_transactions")

    def breaks(i: int) -> str:
        if i == 2:
            transactions.rename(f"{transactions}.away")
            transactions.touch()
        return str(i)

    before = entry(spark), files(place)
    with pytest.raises(SPARK_ERRORS, match="StorageError"):
        REPLACEMENTS["saveAsTable"](spark.table("t").coalesce(1).select(F.udf(lambda i: breaks(i))("id").alias("other")))
    transactions.unlink()
    Path(f"{transactions}.away").rename(transactions)
    assert (entry(spark), files(place)) == before
    assert sql("SELECT * FROM t ORDER BY id") == [(0, 0), (1, 10), (2, 20)]


def test_a_table_that_is_dropped_meanwhile_is_not_replaced(sql: Sql, spark: SparkSession, table: str, tmp_path: Path) -> None:
    """The session catalog rejects the new columns, so the rows are not committed and their files are deleted."""
    before = files(table)

    def waits(i: int) -> int:
        (tmp_path / "started").touch()
        while not (tmp_path / "dropped").exists():
            threading.Event().wait(0.05)
        return i

    def drop() -> None:
        while not (tmp_path / "started").exists():
            threading.Event().wait(0.05)
        spark.sql("DROP TABLE planner.t")
        (tmp_path / "dropped").touch()

    thread = threading.Thread(target=drop)
    thread.start()
    with pytest.raises(SPARK_ERRORS, match=r"TABLE_OR_VIEW_NOT_FOUND"):
        REPLACEMENTS["saveAsTable"](spark.range(3).coalesce(1).select(F.udf(lambda i: waits(i), "bigint")("id").alias("other")))
    thread.join()
    assert files(table) == before
    assert sql("SHOW TABLES") == []


def test_a_table_without_a_query_becomes_empty(sql: Sql, place: str) -> None:
    sql("CREATE OR REPLACE TABLE t (a INT NOT NULL, c CHAR(3), st STRUCT<x: INT>) USING lance")
    assert sql("SELECT * FROM t") == []
    sql("INSERT INTO t VALUES (1, 'x', struct(2))")
    assert sql("SELECT a, c, st.x FROM t") == [(1, "x  ", 2)]
    with pytest.raises(SPARK_ERRORS, match="NULL"):
        sql("INSERT INTO t VALUES (NULL, 'x', NULL)")
    sql("REPLACE TABLE t (b STRING) USING lance")
    assert sql("SELECT * FROM t") == []
    assert [Dataset.open(place, version=v).count_rows() for v in (1, 2, 3, 4)] == [3, 0, 1, 0]


def test_a_statement_without_columns_declares_the_existing_table(sql: Sql, place: str) -> None:
    sql("CREATE OR REPLACE TABLE t USING lance TBLPROPERTIES ('k' = 'v')")
    assert sql("SELECT * FROM t ORDER BY id") == [(0, 0), (1, 10), (2, 20)]
    assert Dataset.open(place).version == 1


DECLARATIONS = {
    "columns": "(a INT COMMENT 'c', b CHAR(3), v VARCHAR(4) NOT NULL, e STRING DEFAULT 'x', st STRUCT<q: INT NOT NULL>) USING lance",
    "properties": "(a INT) USING lance TBLPROPERTIES ('k' = 'v') COMMENT 'n' OPTIONS (max_rows_per_file 7)",
    "query": "USING lance TBLPROPERTIES ('k' = 'v') OPTIONS (max_rows_per_file 7) AS SELECT 1 AS a, named_struct('q', 'x') AS st",
    "location": "USING lance LOCATION '{}' AS SELECT 'x' AS s",
    "path": "USING lance OPTIONS (path '{}', nanoseconds 'truncate') AS SELECT 'x' AS s",
}


@pytest.mark.parametrize("declaration", DECLARATIONS.values(), ids=DECLARATIONS)
def test_the_entry_of_a_replaced_table_is_that_of_a_new_one(sql: Sql, spark: SparkSession, tmp_path: Path, declaration: str) -> None:
    sql("CREATE TABLE t " + declaration.format(tmp_path / "new"))
    new = declared(spark)
    sql("DROP TABLE t")
    sql("CREATE TABLE t USING lance OPTIONS (max_bytes_per_file 1000) TBLPROPERTIES ('old' = 'o') COMMENT 'old' AS SELECT 1 AS a")
    sql("CREATE OR REPLACE TABLE t " + declaration.format(tmp_path / "replaced"))
    assert {name: value.replace("/replaced", "/new") for name, value in declared(spark).items()} == new


def declared(spark: SparkSession) -> dict[str, str]:
    """The entry without the note of the first commit: a replacement is a commit, a table that is only declared has none yet."""
    return {name: re.sub(r"(, )?lance_spark\.written -> true", "", value) for name, value in entry(spark).items()}


def test_a_table_stays_where_it_is_unless_a_location_is_given(sql: Sql, spark: SparkSession, place: str, tmp_path: Path) -> None:
    before = entry(spark)
    REPLACEMENTS["saveAsTable"](spark.range(5).selectExpr("id", "id AS v"))
    assert [entry(spark)[name] for name in ("tableType", "storage")] == [before[name] for name in ("tableType", "storage")]
    spark.range(7).write.format("lance").mode("overwrite").option("path", f"{tmp_path}/other").saveAsTable("t")
    assert sql("SELECT count(*) FROM t") == [(7,)]
    assert Dataset.open(f"{tmp_path}/other").count_rows() == 7
    assert Dataset.open(place).count_rows() == 5
    assert "EXTERNAL" in entry(spark)["tableType"]


def test_settings_of_the_store_stay_with_the_location(sql: Sql, spark: SparkSession, uri: str) -> None:
    Dataset.write(uri, pa.table({"id": range(3)}))
    sql(f"CREATE TABLE t USING lance LOCATION '{uri}' OPTIONS ('storage.region' 'old', 'storage.aws_endpoint' 'old', version 1)")
    sql("CREATE OR REPLACE TABLE t USING lance OPTIONS ('STORAGE.AWS_endpoint' 'new')")
    assert options(spark) == {"storage.secret.region": "old", "storage.secret.aws_endpoint": "new"}
    sql(f"CREATE OR REPLACE TABLE t USING lance LOCATION '{uri}'")
    assert options(spark) == {}


def options(spark: SparkSession) -> dict[str, str]:
    jvm: Any = spark._jvm
    identifier = jvm.org.apache.spark.sql.catalyst.TableIdentifier("t", jvm.scala.Option.apply("planner"))
    found = spark._jsparkSession.sessionState().catalog().getTableMetadata(identifier).storage().properties()
    return {str(k).lower(): str(v) for k, v in dict(jvm.scala.jdk.javaapi.CollectionConverters.asJava(found)).items()}


def test_a_write_goes_to_the_table_that_it_names(sql: Sql, spark: SparkSession, table: str, tmp_path: Path) -> None:
    spark.range(1).selectExpr("id", "id AS v").writeTo("t").option("path", f"{tmp_path}/other").append()
    assert Dataset.open(table).count_rows() == 4
    assert not (tmp_path / "other").exists()


def test_the_default_source_counts_as_named(sql: Sql, spark: SparkSession, table: str) -> None:
    with settings(spark, sources__default="lance"):
        sql("CREATE OR REPLACE TABLE t AS SELECT id + 1 AS id FROM t")
        assert sql("SELECT max(id) FROM t") == [(3,)]
        with pytest.raises(UnsupportedOperationException, match="lance tables have no partitions"):
            sql("CREATE TABLE u (id INT, p INT) PARTITIONED BY (p)")
        with pytest.raises(SPARK_ERRORS, match="TableAlreadyExistsError"):
            sql(f"CREATE TABLE u LOCATION '{table}' AS SELECT 1L AS id")
    assert Dataset.open(table).count_rows() == 3


@pytest.mark.parametrize("replace", [REPLACEMENTS["saveAsTable"], REPLACEMENTS["createOrReplace"]], ids=["saveAsTable", "createOrReplace"])
def test_a_missing_table_is_created(sql: Sql, spark: SparkSession, replace: Replace) -> None:
    with pytest.raises(SPARK_ERRORS, match="no"):
        replace(FAILURES["after some rows"](spark.range(3).selectExpr("id", "id AS v")))
    assert sql("SHOW TABLES") == []
    replace(spark.range(3))
    assert sql("SELECT count(*) FROM t") == [(3,)]


def test_replace_needs_a_table(sql: Sql, spark: SparkSession) -> None:
    for statement in ("REPLACE TABLE t (a INT) USING lance", "REPLACE TABLE t USING lance AS SELECT 1 AS a"):
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            sql(statement)
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        REPLACEMENTS["replace"](spark.range(3))


def test_a_new_table_whose_query_fails_leaves_a_table_at_its_location(sql: Sql, spark: SparkSession, uri: str) -> None:
    Dataset.write(uri, pa.table({"id": range(3)}))
    before = files(uri)
    failing = "AS SELECT CAST(raise_error('no') AS BIGINT) AS id"
    for statement in ("CREATE TABLE", "CREATE OR REPLACE TABLE"):
        with pytest.raises(SPARK_ERRORS, match=r"no|TableAlreadyExistsError"):
            sql(f"{statement} t USING lance LOCATION '{uri}' {failing}")
        assert sql("SHOW TABLES") == []
        assert files(uri) == before
    for statement in ("CREATE TABLE", "CREATE OR REPLACE TABLE"):
        with pytest.raises(SPARK_ERRORS, match="no"):
            sql(f"{statement} t USING lance {failing}")
        assert sql("SHOW TABLES") == []
    sql("CREATE TABLE t USING lance AS SELECT 1 AS id")


def test_truncate_removes_all_rows_in_one_version(sql: Sql, place: str) -> None:
    before = Dataset.open(place)
    sql("TRUNCATE TABLE t")
    assert Dataset.open(place).count_rows() == 0
    assert Dataset.open(place).version == before.version + 1
    assert before.count_rows() == 3


def test_tables_of_other_sources_are_replaced_as_before(sql: Sql, spark: SparkSession) -> None:
    sql("CREATE TABLE t USING parquet AS SELECT id FROM range(3)")
    sql("CREATE OR REPLACE TABLE t USING lance AS SELECT 1L AS a")
    assert sql("SELECT * FROM t") == [(1,)]
    with pytest.raises(AnalysisException, match="does not support REPLACE TABLE AS SELECT"):
        sql("CREATE OR REPLACE TABLE t USING parquet AS SELECT 1 AS a")
    assert sql("SELECT * FROM t") == [(1,)]
    spark.range(2).write.format("parquet").mode("overwrite").saveAsTable("t")
    assert sql("SELECT count(*) FROM t") == [(2,)]


@pytest.mark.matrix
@pytest.mark.parametrize("replace", REPLACEMENTS.values(), ids=REPLACEMENTS)
def test_without_the_rule_a_table_is_not_dropped(sql: Sql, spark: SparkSession, place: str, replace: Replace) -> None:
    before = entry(spark), files(place)
    with settings(spark, optimizer__excludedRules=CATALOG_TABLES):
        with pytest.raises(UnsupportedOperationException, match=r"planner\.t was not replaced.*INSERT OVERWRITE planner\.t"):
            replace(spark.range(3))
        with pytest.raises(UnsupportedOperationException, match=r"INSERT OVERWRITE planner\.t"):
            sql("CREATE OR REPLACE TABLE t (id INT) USING lance")
    assert (entry(spark), files(place)) == before
    replace(spark.range(5))
    assert sql("SELECT count(*) FROM t") == [(5,)]
