"""Merges of a source that lacks nested fields, by Spark: LanceTable keeps the table's values, SQL refuses the source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from lance_spark import LanceTable
from lance_spark.errors import SchemaMismatchError
from lance_spark.lance_table import MergeBuilder

XY = pa.struct([("x", pa.int64()), ("y", pa.string())])
DEEP = pa.struct([("a", XY), ("z", pa.int64())])
ROWS = pa.table({
    "id": [1, 2, 3, 4],
    "st": pa.array([{"a": {"x": 1, "y": "a"}, "z": 1}, {"a": None, "z": 2}, None, {"a": {"x": 4, "y": "d"}, "z": 4}], DEEP),
})  # fmt: skip
SOURCE = """VALUES (1L, named_struct('a', named_struct('x', 10L))), (2L, named_struct('a', named_struct('x', 20L))), (3L, NULL), (9L, NULL)
    s(id, st)"""
CHANGED = [
    {"id": 1, "st": {"a": {"x": 10, "y": "a"}, "z": 1}},
    {"id": 2, "st": {"a": {"x": 20, "y": None}, "z": 2}},
    {"id": 3, "st": None},
    {"id": 4, "st": {"a": {"x": 4, "y": "d"}, "z": 4}},
]
INSERTED = {"id": 9, "st": None}

Steps = Callable[[MergeBuilder], MergeBuilder]


@pytest.mark.parametrize(
    ("steps", "inserts"),
    [
        (lambda m: m.whenMatchedUpdateAll().whenNotMatchedInsertAll(), True),
        (lambda m: m.whenMatchedUpdate(set={"st": "s.st"}), False),
        (lambda m: m.whenMatchedUpdate("s.id < 3", {"st": "s.st"}).whenMatchedUpdate(set={"id": "t.id"}).whenNotMatchedInsertAll(), True),
        (lambda m: m.withSchemaEvolution().whenMatchedUpdateAll().whenNotMatchedInsertAll(), True),
    ],
    ids=["all", "set", "some", "evolving"],
)
def test_nested_fields_that_the_source_lacks_keep_their_values(spark: SparkSession, tmp_path: Path, steps: Steps, inserts: bool) -> None:
    uri = lance.write_dataset(ROWS, str(tmp_path / "t"), enable_stable_row_ids=True).uri
    steps(LanceTable.forPath(spark, uri).alias("t").merge(spark.sql(f"SELECT * FROM {SOURCE}").alias("s"), "t.id = s.id")).execute()
    got = lance.dataset(uri).to_table().sort_by("id").to_pylist()
    assert got == [*CHANGED, *([INSERTED] if inserts else [])]


def test_lists_without_all_fields_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"id": [1], "l": pa.array([[{"x": 1, "y": "a"}]], pa.list_(XY))})
    uri = lance.write_dataset(rows, str(tmp_path / "t")).uri
    source = spark.sql("SELECT 1L AS id, array(named_struct('x', 2L)) AS l")
    merge = LanceTable.forPath(spark, uri).alias("t").merge(source.alias("s"), "t.id = s.id")
    with pytest.raises(SchemaMismatchError, match=r"column 'l': the source .* lacks fields of the table's structs"):
        merge.whenMatchedUpdateAll().execute()


def test_sql_refuses_a_source_that_lacks_nested_fields(spark: SparkSession, tmp_path: Path) -> None:
    uri = lance.write_dataset(ROWS, str(tmp_path / "t")).uri
    spark.read.format("lance").load(uri).createOrReplaceTempView("nested_target")
    with pytest.raises(AnalysisException, match="st"):
        spark.sql(f"MERGE INTO nested_target t USING (SELECT * FROM {SOURCE}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *")
    assert lance.dataset(uri).version == 1
