"""Base paths in Spark: options of writes, properties of tables, CALL, and statements on files at base paths."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import lance
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lance_spark
from lance_spark import Dataset, LanceTable
from lance_spark.operations import DatasetBasePath

pytestmark = pytest.mark.spec("table.md", "Storage Layout")


def base_ids(uri: str) -> Counter[int | None]:
    """How many data files are at each base path, for both libraries the same."""
    lance.dataset(uri).validate()
    return Counter(file.base_id for f in Dataset.open(uri).snapshot.manifest.fragments for file in f.files)


def initial(tmp_path: Path) -> str:
    """The option with two base paths."""
    return json.dumps([{"path": str(tmp_path / name), "name": name} for name in ("a", "b")])


def test_options_of_writes(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    writer = spark.range(40).repartition(4).write.format("lance").mode("append")
    writer.options(initial_bases=initial(tmp_path), target_bases="a,b").save(uri)
    # The first file of each task goes to another base path.
    assert base_ids(uri) == {1: 2, 2: 2}
    writer = spark.range(40, 44).coalesce(1).write.format("lance").mode("append").option("max_rows_per_file", 1)
    writer.option("target_all_bases", "true").save(uri)
    assert base_ids(uri) == {1: 3, 2: 3, None: 2}
    table = LanceTable.forPath(spark, uri)
    table.addBases([DatasetBasePath(str(tmp_path / "c"), "c")])
    table.optimize().executeCompaction(target_bases=["c"])
    assert base_ids(uri) == {3: 1}
    assert spark.read.format("lance").load(uri).count() == lance.dataset(uri).count_rows() == 44
    with pytest.raises(PySparkException, match="has no base path 'nope'"):
        spark.range(1).write.format("lance").mode("append").option("target_bases", "nope").save(uri)
    with pytest.raises(PySparkException, match="a JSON list such as"):
        spark.range(1).write.format("lance").mode("append").option("initial_bases", "a=b").save(uri)


def test_statements_of_the_sql_catalog(spark: SparkSession, tmp_path: Path) -> None:
    lance_spark.catalog(spark, "based", root=str(tmp_path / "catalog"), single_level_ns=True)
    spark.sql(
        f"CREATE TABLE based.t (id BIGINT, v STRING) TBLPROPERTIES "
        f"('initial_bases' = '{initial(tmp_path)}', 'target_bases' = 'a,b', 'max_rows_per_file' = '2')"
    )
    uri = Dataset.open(tmp_path / "catalog" / "t.lance").uri
    spark.sql("INSERT INTO based.t SELECT /*+ COALESCE(1) */ id, 'old' FROM range(8)")
    assert base_ids(uri) == {1: 2, 2: 2}
    spark.sql("UPDATE based.t SET v = 'new' WHERE id = 1")
    spark.sql("DELETE FROM based.t WHERE id = 2")
    spark.sql("MERGE INTO based.t t USING (SELECT 7L id UNION SELECT 8L) s ON t.id = s.id "
              "WHEN MATCHED THEN UPDATE SET v = 'merged' WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'more')")  # fmt: skip
    assert None not in base_ids(uri)
    [row] = spark.sql(f"""CALL based.system.add_bases('based.t', '[{{"path": "{tmp_path}/c", "name": "c"}}]')""").collect()
    assert row.version == lance.dataset(uri).version
    spark.sql("CALL based.system.compact('based.t', target_bases => array('c'))")
    assert base_ids(uri) == {3: 1}
    rows = {row.id: row.v for row in spark.sql("SELECT * FROM based.t").collect()}
    assert rows == {0: "old", 1: "new", **dict.fromkeys(range(3, 7), "old"), 7: "merged", 8: "more"}
    assert rows == {row["id"]: row["v"] for row in lance.dataset(uri).to_table().to_pylist()}
    assert not (tmp_path / "catalog" / "t.lance" / "data").exists()


def test_partitioned_namespaces_have_no_base_paths(spark: SparkSession, tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    lance_spark.create_partitioned_namespace(root, spark.range(1).schema, ["id"])
    with pytest.raises(PySparkException, match="base paths are those of one table"):
        spark.range(3).write.format("lance").mode("append").option("target_bases", "a").save(root)
