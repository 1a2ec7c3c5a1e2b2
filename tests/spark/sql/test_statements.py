"""Statements that Spark does not know, as users of Delta Lake and of the JVM connector type them, on every kind of table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.catalog.lakes import Lake, lake
from tests.spark.plans import Sql
from tests.spark_session import SPARK_ERRORS


@pytest.fixture
def own(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    """The catalog `lance` over an empty directory namespace."""
    with lake(spark, tmp_path / "lake") as made:
        yield made


def test_the_history_of_a_table_is_described_by_its_name_its_path_and_its_view(own: Lake, sql: Sql) -> None:
    own.sql("CREATE TABLE lance.ns.t AS SELECT id FROM range(3)")
    own.sql("INSERT INTO lance.ns.t VALUES (3)")
    path = own.location("ns.t")
    own.sql(f"CREATE TEMPORARY VIEW statement_view USING lance OPTIONS (path '{path}')")
    sql("CREATE TABLE session_table (id INT) USING lance")
    sql("INSERT INTO session_table VALUES (1)")
    for name in ("lance.ns.t", f"lance.`{path}`", "statement_view"):
        rows = own.spark.sql(f"DESCRIBE HISTORY {name}")
        assert rows.columns == ["version", "timestamp", "operation", "message", "properties"]
        assert [(row.version, row.operation) for row in rows.collect()] == [(2, "Append"), (1, "Overwrite")]
    assert [row[2] for row in sql("desc  history /* of */ planner.session_table limit 1 ; -- newest")] == ["Append"]
    with pytest.raises(SPARK_ERRORS, match="the end is expected, but there is 'AND' at position 37"):
        own.sql("DESCRIBE HISTORY lance.ns.t LIMIT 1 AND more")
    with pytest.raises(SPARK_ERRORS, match="TABLE_OR_VIEW_NOT_FOUND"):
        own.sql("DESCRIBE HISTORY lance.ns.missing")
