"""What the JVM connector's own SQL tests do, in the syntax of this catalog, as the default catalog of a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.errors import InvalidOptionError
from tests.spark.catalog.lakes import Lake
from tests.spark.plans import settings


@pytest.fixture
def session(own: Lake) -> Iterator[SparkSession]:
    """A session whose default catalog is lance, with a namespace `default`."""
    own.sql("CREATE NAMESPACE lance.default")
    with settings(own.spark, defaultCatalog="lance"):
        own.sql("USE lance.default")
        yield own.spark


def test_tables_are_created_listed_described_and_dropped(session: SparkSession) -> None:
    assert "lance" in [row[0] for row in session.sql("SHOW CATALOGS").collect()]
    session.sql("CREATE NAMESPACE IF NOT EXISTS default")
    session.sql("CREATE TABLE default.test_table (id INT, name STRING, value DOUBLE)")
    assert [row.tableName for row in session.sql("SHOW TABLES IN default").collect()] == ["test_table"]
    assert [row.col_name for row in session.sql("DESCRIBE TABLE default.test_table").collect()] == ["id", "name", "value"]
    session.sql("DROP TABLE IF EXISTS default.test_table PURGE")
    assert session.sql("SHOW TABLES IN default").collect() == []


def test_frames_with_wider_types_are_appended_and_queried(session: SparkSession, own: Lake) -> None:
    session.sql("CREATE TABLE default.employees (id INT, name STRING, age INT, department STRING, salary INT)")
    people = [
        (1, "Alice", 25, "Eng", 75000),
        (2, "Bob", 30, "Sales", 65000),
        (3, "Charlie", 35, "Sales", 70000),
        (4, "Diana", 28, "Eng", 80000),
    ]
    session.createDataFrame(people, ["id", "name", "age", "department", "salary"]).writeTo("default.employees").append()
    query = "SELECT department, count(*) AS n, avg(salary) AS mean FROM default.employees GROUP BY department ORDER BY mean DESC"
    assert [tuple(row) for row in session.sql(query).collect()] == [("Eng", 2, 77500.0), ("Sales", 2, 67500.0)]
    assert [row.name for row in session.sql("SELECT name FROM default.employees WHERE age > 28 ORDER BY id DESC LIMIT 1").collect()] == [
        "Charlie"
    ]
    session.sql("DELETE FROM default.employees WHERE department = 'Sales'")
    session.sql("UPDATE default.employees SET salary = salary + 1, name = upper(name) WHERE salary < 76000")
    source = session.createDataFrame([(4, "Dee", 1), (5, "Eve", 2)], ["id", "name", "salary"])
    source.createOrReplaceTempView("source")
    session.sql(
        "MERGE INTO default.employees t USING source s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name, salary = s.salary "
        "WHEN NOT MATCHED THEN INSERT (id, name, salary) VALUES (s.id, s.name, s.salary)"
    )
    rows = session.sql("SELECT id, name, salary FROM default.employees ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(1, "ALICE", 75001), (4, "Dee", 1), (5, "Eve", 2)]
    assert session.sql("SELECT count(*) FROM default.employees VERSION AS OF 2").collect() == [(4,)]
    session.sql("INSERT OVERWRITE default.employees SELECT id + 10, name, 1, 'x', salary FROM source")
    assert [row["id"] for row in own.pylance("default.employees")] == [14, 15]
    session.catalog.dropTempView("source")


def test_vectors_have_the_size_in_the_properties(session: SparkSession, own: Lake) -> None:
    size = "'vector_column.arrow.fixed-size-list.size' = '16'"
    session.sql(f"CREATE TABLE default.vectors (id INT, vector_column ARRAY<FLOAT> NOT NULL) TBLPROPERTIES ({size})")
    session.createDataFrame([(i, [i / 7] * 16) for i in range(20)], "id int, vector_column array<float>").writeTo(
        "default.vectors"
    ).append()
    assert lance.dataset(own.location("default.vectors")).schema.field("vector_column").type == pa.list_(pa.float32(), 16)
    assert len(own.pylance("default.vectors")) == 20


def test_rows_of_a_view_with_row_addresses_change_columns(session: SparkSession) -> None:
    session.sql("CREATE TABLE default.test_table AS SELECT id, id * 100 AS value FROM range(3)")
    session.sql("CREATE TEMPORARY VIEW tmp_view AS SELECT id, _rowaddr, _fragid, value * 2 AS value FROM default.test_table WHERE id > 0")
    session.sql("MERGE INTO default.test_table t USING tmp_view v ON t.id = v.id WHEN MATCHED THEN UPDATE SET value = v.value")
    assert [tuple(row) for row in session.sql("SELECT * FROM default.test_table ORDER BY id").collect()] == [(0, 0), (1, 200), (2, 400)]
    session.catalog.dropTempView("tmp_view")


def test_options_add_row_ids_and_addresses(session: SparkSession) -> None:
    session.sql(
        "CREATE TABLE default.test_table TBLPROPERTIES ('enable_stable_row_ids' = 'true') AS SELECT id, id * 2 AS v FROM range(0, 3, 1, 1)"
    )
    session.sql("DELETE FROM default.test_table WHERE id = 1")
    frame = session.read.option("with_row_id", "true").option("with_row_address", "true").table("default.test_table")
    assert [tuple(row) for row in frame.orderBy("_rowid").collect()] == [(0, 0, 0, 0), (2, 4, 2, 2)]
    assert session.sql("SELECT _rowid, id FROM default.test_table WITH (with_row_id = 'true') WHERE _rowid > 0").collect() == [(2, 2)]


def test_a_catalog_is_configured_as_that_of_the_connector(spark: SparkSession, tmp_path: Path) -> None:
    lance_spark.catalog(spark, "lance", impl="dir", root=str(tmp_path), single_level_ns=True, enable_stable_row_ids=True)
    run = Lake(spark, tmp_path).sql
    assert run("SHOW NAMESPACES IN lance") == [("default",)]
    run("CREATE NAMESPACE IF NOT EXISTS lance.default")
    run("CREATE TABLE lance.default.t AS SELECT 1 AS id")
    run("CREATE TABLE lance.u (id INT) TBLPROPERTIES ('stable_row_ids' = 'false')")
    assert run("SHOW TABLES IN lance.default") == [("default", "t", False), ("default", "u", False)]
    assert [lance.dataset(tmp_path / f"{name}.lance").has_stable_row_ids for name in "tu"] == [True, False]
    run("CALL lance.system.create_branch('default.t', 'b')")
    run("INSERT INTO lance.default.t.branch_b VALUES (2)")
    run("ALTER TABLE lance.default.u RENAME TO lance.default.w")
    assert [run(f"SELECT count(*) FROM lance.{name}") for name in ("default.t.branch_b", "t", "w")] == [[(2,)], [(1,)], [(0,)]]
    for name in ("single_level_ns", "enable_stable_row_ids", "singel_level_ns"):
        with pytest.raises(InvalidOptionError, match=name):
            lance_spark.catalog(spark, "lance", root=str(tmp_path), **{name: "maybe"})  # type: ignore[arg-type]


def test_times_after_all_others_read_the_latest_version(session: SparkSession) -> None:
    session.sql("CREATE TABLE default.test_table AS SELECT 1 AS id")
    assert session.sql("SELECT id FROM default.test_table TIMESTAMP AS OF 1705314600000000").collect() == [(1,)]


def test_indexes_keys_tags_and_branches_are_made_and_listed(session: SparkSession) -> None:
    session.sql("CREATE TABLE default.test_table (id INT NOT NULL, s STRING) TBLPROPERTIES ('data_storage_version' = 'STABLE')")
    session.sql("INSERT INTO default.test_table VALUES (1, 'a')")
    session.sql("CALL lance.system.set_primary_key('default.test_table', array('id'))")
    session.sql("CALL lance.system.create_index('default.test_table', 'id', 'ZONEMAP', 'i')")
    session.sql("INSERT INTO default.test_table VALUES (2, 'b')")
    session.sql("CALL lance.system.optimize_indices(table => 'default.test_table', index_names => array('i'), num_indices_to_merge => 0)")
    assert session.sql("CALL lance.system.indexes('default.test_table')").count() == 2
    session.sql("CALL lance.system.create_branch('default.test_table', 'b', 2)")
    session.sql("INSERT INTO default.test_table.branch_b VALUES (9, 'z')")
    session.sql("CALL lance.system.create_tag('default.test_table.branch_b', 'x')")
    assert [row[:3] for row in session.sql("CALL lance.system.tags('default.test_table')").collect()] == [("x", "b", 3)]
    query = "SELECT id FROM default.test_table VERSION AS OF 'x' ORDER BY id"
    assert [row.id for row in session.sql(query).collect()] == [1, 9]
    session.sql("INSERT INTO default.test_table REPLACE WHERE id = 1 SELECT 1, 'new'")
    assert session.sql("SELECT s FROM default.test_table ORDER BY id").collect() == [("new",), ("b",)]
