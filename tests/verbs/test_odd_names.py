"""Names with backticks and dots, which existing tables may have, mean themselves in every verb, also in fields of structs."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lance_spark import Dataset, LanceTable
from tests.tables import rename_column

NAMES = ["a`b", "`", "``", ".`"]


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


@pytest.fixture
def path(name: str) -> str:
    """The name as SQL writes it."""
    return "`" + name.replace("`", "``") + "`"


@pytest.fixture
def table(spark: SparkSession, uri: str, name: str) -> LanceTable:
    Dataset.write(uri, pa.table({"id": [0, 1, 2], "n": [0, 10, 20], "st": [{name: i, "other": i} for i in range(3)]}))
    rename_column(uri, "n", name)
    return LanceTable.forPath(spark, uri)


def rows(table: LanceTable) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in table.toDF().collect())


def test_updates_and_deletes(table: LanceTable, path: str) -> None:
    table.update(f"st.{path} = 1", {path: "id + 100", f"st.{path}": F.lit(7)})
    table.delete(f"{path} = 20")
    assert rows(table) == [(0, 0, (0, 0)), (1, 101, (7, 1))]


def test_merges(spark: SparkSession, table: LanceTable, path: str) -> None:
    columns = f"{path} bigint, id bigint, st struct<{path}: bigint, other: bigint>"
    source = spark.createDataFrame([(10, 5, (5, 5)), (90, 9, (9, 9))], columns)
    merge = table.alias("t").merge(source.alias("s"), f"t.{path} = s.{path}")
    merge.whenMatchedUpdate(set={f"st.{path}": "s.id"}).whenNotMatchedInsertAll().execute()
    assert rows(table) == [(0, 0, (0, 0)), (1, 10, (5, 1)), (2, 20, (2, 2)), (9, 90, (9, 9))]


def test_new_columns(spark: SparkSession, table: LanceTable, name: str, path: str) -> None:
    table.addColumns(spark.createDataFrame([(10, "x")], f"{path} bigint, new string"), on=[name])
    assert [row[3] for row in sorted(table.toDF().collect())] == [None, "x", None]


@pytest.mark.usefixtures("table")
def test_conditions_on_fields(spark: SparkSession, uri: str, path: str) -> None:
    frame = spark.read.format("lance").load(uri)
    assert [row.id for row in frame.where(f"st.{path} = 1").collect()] == [1]
    assert frame.selectExpr(f"max(st.{path})", f"count({path})").collect() == [(2, 3)]
