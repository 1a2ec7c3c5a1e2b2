"""What Spark reads for a row-level command, and the metadata columns and the table function in plans."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from lance_spark import Dataset
from tests.spark.sql.tables import Table
from tests.spark_session import SPARK_ERRORS


def scans(plan: str) -> list[str]:
    """The scans of a plan."""
    return [line for line in plan.splitlines() if "BatchScan " in line]


def test_a_delete_reads_addresses_with_the_condition_pushed_down(table: Table) -> None:
    plan = table.plan("DELETE FROM t WHERE id = 3")
    assert "AppendData" in plan
    (scan,) = scans(plan)
    assert "id = 3], ReadSchema: struct<_rowaddr:bigint>" in scan


def test_a_merge_scans_the_table_once_and_only_the_columns_that_it_needs(table: Table) -> None:
    plan = table.plan(
        """MERGE INTO t USING (SELECT id, 'm' AS s FROM range(4, 13)) x ON t.id = x.id AND t.k = 1
        WHEN MATCHED THEN UPDATE SET s = x.s WHEN NOT MATCHED THEN INSERT (id, s) VALUES (x.id, x.s)"""
    )
    (scan,) = scans(plan)
    assert "k = 1" in scan
    assert "ReadSchema: struct<id:bigint,k:bigint,_rowaddr:bigint>" in scan or "ReadSchema: struct<id:bigint,_rowaddr:bigint>" in scan


def test_a_joined_delete_prunes_while_it_runs(table: Table, tmp_path: object) -> None:
    table.spark.range(100).selectExpr("id", "id % 10 AS d").write.parquet(f"{tmp_path}/dim")
    table.spark.read.parquet(f"{tmp_path}/dim").createOrReplaceTempView("dim")
    plan = table.plan("DELETE FROM t WHERE id IN (SELECT id FROM dim WHERE d = 4)")
    (scan,) = scans(plan)
    assert "dynamicpruning" in scan
    assert table.run("DELETE FROM t WHERE id IN (SELECT id FROM dim WHERE d = 4)").num_deleted_rows == 1


def test_metadata_columns_are_selected_by_name_only(table: Table) -> None:
    names = ["_rowid", "_rowaddr", "_fragid", "_row_created_at_version", "_row_last_updated_at_version"]
    assert table.spark.table("t").columns == ["id", "k", "s"]
    rows = table.spark.sql(f"SELECT id, {', '.join(names)} FROM t WHERE id IN (0, 6) ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(0, 0, 0, 0, 1, 1), (6, 6, 1 << 32, 1, 2, 2)]
    df = table.spark.read.format("lance").load(table.uri)
    assert sorted(row[0] for row in df.where("id > 7").select("_rowid").collect()) == [8, 9]
    assert df.select(df.metadataColumn("_fragid")).distinct().count() == 2
    assert df.withColumn("a", F.col("_rowaddr")).columns == ["id", "k", "s", "a"]


def test_the_file_of_a_row_is_a_metadata_column(table: Table) -> None:
    run = table.spark.sql
    rows = run("SELECT id, _metadata.row_index FROM t WHERE _metadata.row_index > 3 ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(4, 4), (5, 5)]
    paths = [row[0] for row in run("SELECT DISTINCT _metadata.file_path FROM t").collect()]
    files = Dataset.open(table.uri).metadata_table("files")["path"].to_pylist()
    assert sorted(paths) == sorted(files)
    (found,) = run(f"SELECT _metadata FROM t WHERE _metadata.file_path = '{files[1]}' AND id = 6").collect()
    assert tuple(found[0]) == (files[1], files[1].rpartition("/")[2], 0, 6, 2)
    assert table.run("DELETE FROM t WHERE _metadata.row_index = 1").num_deleted_rows == 2


def test_a_view_of_a_dataframe_keeps_metadata_columns(table: Table) -> None:
    rows = table.spark.table("t").select("id", "_rowid").where("id > 7")
    rows.createOrReplaceTempView("v")
    assert sorted(tuple(row) for row in table.spark.table("v").collect()) == [(8, 8), (9, 9)]
    assert table.run("DELETE FROM t WHERE id IN (SELECT id FROM v WHERE _rowid = 9)").num_deleted_rows == 1
    assert table.spark.table("v").where("_rowid > 8").count() == 0, "Spark looks the name up again"
    table.spark.catalog.dropTempView("v")


def test_conditions_on_metadata_columns_are_pushed_down(table: Table) -> None:
    (scan,) = scans(table.plan("SELECT s FROM t WHERE _rowid = 3"))
    assert "PushedFilters: [_rowid = 3]" in scan
    assert [row[0] for row in table.spark.sql("SELECT s FROM t WHERE _rowid = 3").collect()] == ["s3"]


def test_the_table_function_reads_a_path(table: Table) -> None:
    found = table.spark.sql(f"SELECT s, _rowid FROM lance_scan('{table.uri}', 'id > 2') WHERE k = 0 ORDER BY s").collect()
    assert [tuple(row) for row in found] == [("s3", 3), ("s6", 6), ("s9", 9)]
    assert table.spark.sql(f"SELECT * FROM lance_scan('{table.uri}', NULL, 4)").count() == 4
    (scan,) = scans(table.plan(f"SELECT s FROM lance_scan('{table.uri}') WHERE k = 0"))
    assert "k = 0" in scan
    with pytest.raises(SPARK_ERRORS, match="lance_scan takes the arguments path, filter and limit"):
        table.spark.sql("SELECT * FROM lance_scan()")
    with pytest.raises(SPARK_ERRORS, match="TableNotFoundError"):
        table.spark.sql(f"SELECT * FROM lance_scan('{table.uri}x')")
