"""Branches that are compared, merged and published from Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lance_spark
from lance_spark import Dataset, LanceTable
from lance_spark.errors import BranchMergeConflictError
from tests.spark_session import SPARK_ERRORS

KEY = {"lance-schema:unenforced-primary-key": "true"}
ROWS = pa.table(
    {"id": [1, 2, 3], "v": ["a", "b", "c"]},
    schema=pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=KEY), pa.field("v", pa.string())]),
)


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Dataset:
    """The table `branches.t` in a catalog, with changes in its branch dev."""
    lance_spark.catalog(spark, "branches", root=str(tmp_path))
    table = Dataset.write(str(tmp_path / "t.lance"), ROWS)
    table.create_branch("dev").update({"v": "'x'"}, "id = 1").delete("id = 2").insert(ROWS.slice(0, 1).set_column(0, ROWS.field(0), [[9]]))
    return table


def test_a_function_compares_branches(spark: SparkSession, table: Dataset) -> None:
    for name in ("branches.t", table.uri):
        found = spark.sql(f"SELECT _change_type, id FROM branch_diff('{name}', 'main', 'dev') WHERE id > 0 ORDER BY 1, 2").collect()
        assert [tuple(row) for row in found] == [("delete", 2), ("insert", 9), ("update_postimage", 1), ("update_preimage", 1)]
    assert spark.sql("SELECT count(*) FROM branch_diff(table => 'branches.t', before => 'dev', after => 'main')").collect() == [(4,)]
    frame = spark.read.format("lance").option("branch", "dev").option("diffFrom", "main").load(table.uri)
    assert frame.select("v").where("id = 9").collect() == [("a",)]
    for name, value in (("version", "1"), ("columns", "id"), ("filter", "id > 1"), ("with_row_id", "true"), ("readChangeFeed", "true")):
        with pytest.raises(SPARK_ERRORS, match=f"(?s)diffFrom.*{name}|{name}.*diffFrom"):
            spark.read.format("lance").options(branch="dev", diffFrom="main", **{name: value}).load(table.uri)
    with pytest.raises(SPARK_ERRORS, match="branch_diff needs the argument"):
        spark.sql("SELECT * FROM branch_diff('branches.t', 'main')")


def test_a_branch_is_merged_and_published(spark: SparkSession, table: Dataset) -> None:
    spark.sql("UPDATE branches.t SET v = 'o' WHERE id = 1")
    with pytest.raises(SPARK_ERRORS, match=r"updated in both.*on_conflict"):
        spark.sql("CALL branches.system.merge_branch(table => 't', branch => 'dev')")
    done = spark.sql("CALL branches.system.merge_branch(table => 't', branch => 'dev', on_conflict => 'theirs', commit_message => 'all')")
    assert done.select("num_inserted_rows", "num_updated_rows", "num_deleted_rows").collect() == [(1, 1, 1)]
    assert [tuple(row) for row in spark.sql("SELECT * FROM branches.t ORDER BY id").collect()] == [(1, "x"), (3, "c"), (9, "a")]
    assert Dataset.open(table.uri).history(1)[0].message == "all"
    spark.sql("CALL branches.system.rebase_branch(table => 't', branch => 'dev')")
    Dataset.open(table.uri, branch="dev").delete("id = 3")
    [row] = spark.sql("CALL branches.system.fast_forward(table => 't', branch => 'main', to => 'dev')").collect()
    assert row.branch_updated == "main"
    assert row.updated_ref == row.previous_ref + 1
    assert spark.table("branches.t").count() == 2


def test_a_table_in_python_has_the_same_methods(spark: SparkSession, table: Dataset) -> None:
    of_spark = LanceTable.forPath(spark, table.uri)
    assert of_spark.branches.diff("main", "dev").summary().num_deleted_rows == 1
    table.update({"v": "'o'"}, "id = 1")
    with pytest.raises(BranchMergeConflictError):
        of_spark.branches.merge("dev")
    assert of_spark.branches.merge("dev", on_conflict="ours").num_inserted_rows == 1
    assert of_spark.branches.cherry_pick(3, "dev").num_deleted_rows == 0
