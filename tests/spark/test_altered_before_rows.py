"""ALTER TABLE before the first rows: a table of the session catalog becomes what one of the SQL catalog becomes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tests.sample import others_slow
from tests.spark.catalog.lakes import Lake, lake
from tests.spark.plans import Sql
from tests.spark_session import SPARK_ERRORS, SPARK_VERSION

pytestmark = pytest.mark.skipif(SPARK_VERSION < (4, 1), reason="Spark 4.0 fills no columns that an INSERT into its own catalog leaves out")

COLUMNS = """id INT, s STRING, n INT NOT NULL DEFAULT 1, d INT DEFAULT 7,
    st STRUCT<a: INT, c: STRING>, l ARRAY<STRUCT<a: INT>>"""
CHANGES = (
    "ADD COLUMN w STRING FIRST",
    "ADD COLUMN w STRING AFTER id",
    "ADD COLUMNS (w INT FIRST, x INT AFTER w, y INT)",
    "ADD COLUMN w INT DEFAULT 8 FIRST",
    "ADD COLUMN w CHAR(3) COMMENT 'why' AFTER id",
    "ADD COLUMN st.b INT",
    "ADD COLUMN st.b INT FIRST",
    "ADD COLUMN st.b STRING COMMENT 'why' AFTER a",
    "ADD COLUMN l.element.b INT FIRST",
    "DROP COLUMN s",
    "DROP COLUMNS (id, s)",
    "DROP COLUMN st.c",
    "RENAME COLUMN s TO t",
    "RENAME COLUMN st.a TO q",
    "RENAME COLUMN l.element.a TO q",
    "ALTER COLUMN id TYPE BIGINT",
    "ALTER COLUMN st.a TYPE BIGINT",
    "ALTER COLUMN id SET NOT NULL",
    "ALTER COLUMN n DROP NOT NULL",
    "ALTER COLUMN s FIRST",
    "ALTER COLUMN id AFTER s",
    "ALTER COLUMN st.c FIRST",
    "ALTER COLUMN s COMMENT 'text'",
    "ALTER COLUMN id SET DEFAULT 5",
    "ALTER COLUMN d DROP DEFAULT",
    "REPLACE COLUMNS (s STRING, id BIGINT, q STRING)",
)
ALIKE = {
    "ADD COLUMN w STRING AFTER id",
    "ADD COLUMNS (w INT FIRST, x INT AFTER w, y INT)",
    "ADD COLUMN st.b INT",
    "ADD COLUMN st.b STRING COMMENT 'why' AFTER a",
    "DROP COLUMN s",
    "RENAME COLUMN s TO t",
    "RENAME COLUMN st.a TO q",
    "ALTER COLUMN id TYPE BIGINT",
    "ALTER COLUMN n DROP NOT NULL",
    "ALTER COLUMN s FIRST",
    "ALTER COLUMN id AFTER s",
    "ALTER COLUMN s COMMENT 'text'",
    "ALTER COLUMN d DROP DEFAULT",
}
"""Those whose kind is there once more, at another place or with more to it."""
REFUSED = (
    "ADD COLUMN w INT NOT NULL",
    "ADD COLUMN st.b INT DEFAULT 3",
    "ADD COLUMN `a.b` INT",
    "RENAME COLUMN s TO `a.b`",
    "DROP COLUMN missing",
)


@pytest.fixture
def own(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    """The catalog `lance` over an empty directory namespace."""
    with lake(spark, tmp_path / "lake") as made:
        yield made


def _row(schema: StructType) -> str:
    """Values of the columns, of which integers and texts are not null."""
    values = {"int": "1", "bigint": "1", "string": "'a'"}
    return ", ".join(values.get(f.dataType.simpleString(), f"CAST(NULL AS {f.dataType.simpleString()})") for f in schema)


@pytest.mark.parametrize("change", others_slow(CHANGES, {*CHANGES} - ALIKE))
def test_the_first_rows_find_the_same_table(own: Lake, sql: Sql, spark: SparkSession, change: str) -> None:
    found = {}
    for name in ("planner.fresh", "lance.fresh"):
        sql(f"CREATE TABLE {name} ({COLUMNS}) USING lance")
        sql(f"ALTER TABLE {name} {change}")
        empty = spark.table(name).schema
        sql(f"INSERT INTO {name} VALUES ({_row(empty)})")
        first = StructType(empty.fields[:1])
        sql(f"INSERT INTO {name} ({first.names[0]}) VALUES ({_row(first)})")
        described = [tuple(row) for row in sql(f"DESCRIBE {name}") if row[0]]
        location = spark.sql(f"DESCRIBE DETAIL {name}").collect()[0].location
        stored = spark.read.format("lance").load(location).schema
        found[name] = {
            "declared": empty.simpleString(),
            "nullable": [f.nullable for f in empty],
            "described": described,
            "stored": stored.simpleString(),
            "stored nullable": [f.nullable for f in stored],
            "rows": sorted(sql(f"SELECT * FROM {name}"), key=str),
        }
    assert found["planner.fresh"] == found["lance.fresh"]


@pytest.mark.parametrize("change", REFUSED)
def test_what_the_sql_catalog_refuses_is_refused(own: Lake, sql: Sql, change: str) -> None:
    for name in ("lance.fresh", "planner.fresh"):
        sql(f"CREATE TABLE {name} ({COLUMNS}) USING lance")
        with pytest.raises(SPARK_ERRORS):
            sql(f"ALTER TABLE {name} {change}")
