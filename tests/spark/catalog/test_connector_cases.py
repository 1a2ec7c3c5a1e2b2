"""What the JVM connector's own SQL tests do, in the syntax of this catalog, as the default catalog of a session."""

from __future__ import annotations

from collections.abc import Iterator

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

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
