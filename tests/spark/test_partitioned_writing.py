"""Writing a partitioned namespace from Spark, in every mode."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from lance_spark.errors import TableAlreadyExistsError
from lance_spark.namespace.partitioned.namespace import PartitionedNamespace

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("c", pa.string())])


@pytest.fixture
def root(spark: SparkSession, tmp_path: Path) -> str:
    """A namespace with the rows 0 to 29 in three partitions."""
    uri = PartitionedNamespace.create(tmp_path / "n", SCHEMA, ["c"]).uri
    frame(spark, 0, 30).write.format("lance").mode("append").save(uri)
    return uri


def frame(spark: SparkSession, start: int, stop: int) -> DataFrame:
    return spark.range(start, stop, 1, 3).selectExpr("id", "concat('c', id % 3) AS c")


def ids(root: str) -> list[int]:
    return sorted(PartitionedNamespace.open(root).scan(columns=["id"]).to_table()["id"].to_pylist())


def test_rows_of_all_tasks_are_one_version(spark: SparkSession, root: str) -> None:
    namespace = PartitionedNamespace.open(root)
    assert ids(root) == list(range(30))
    assert sorted(namespace.partitions()["partition_field_c"].to_pylist()) == ["c0", "c1", "c2"]
    frame(spark, 30, 36).write.format("lance").mode("append").save(root)
    assert PartitionedNamespace.open(root).version == namespace.version + 1
    assert spark.read.format("lance").load(root).count() == 36


def test_overwriting_replaces_all_some_or_what_a_condition_says(spark: SparkSession, root: str) -> None:
    writer = frame(spark, 100, 103).where("c = 'c1'").write.format("lance").mode("overwrite")
    writer.option("partitionOverwriteMode", "dynamic").save(root)
    assert ids(root) == sorted([i for i in range(30) if i % 3 != 1] + [100])
    frame(spark, 60, 90).where("c = 'c2'").limit(1).write.format("lance").mode("overwrite").option("replaceWhere", "c = 'c2'").save(root)
    assert len([i for i in ids(root) if i % 3 == 2]) == 1
    frame(spark, 5, 6).write.format("lance").mode("overwrite").save(root)
    assert ids(root) == [5]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"replaceWhere": "id >= 3"}, "divides partitions"),
        ({"replaceWhere": "c = 'c1'"}, "does not (fulfil|satisfy)"),
        ({"overwriteSchema": "true"}, "columns stay"),
        ({"replaceWhere": "c = 'c1'", "partitionOverwriteMode": "dynamic"}, "only one"),
    ],
)
def test_writes_that_cannot_be_done_change_nothing(spark: SparkSession, root: str, options: dict[str, str], message: str) -> None:
    before = PartitionedNamespace.open(root).version
    with pytest.raises(PySparkException, match=message):
        frame(spark, 3, 6).coalesce(1).write.format("lance").mode("overwrite").options(**options).save(root)
    assert PartitionedNamespace.open(root).version == before


def test_a_task_that_fails_leaves_no_files(spark: SparkSession, root: str) -> None:
    before = sorted(str(p) for p in Path(root).rglob("*.lance") if p.is_file())
    failing = frame(spark, 0, 30).selectExpr("id", "CASE WHEN id = 29 THEN raise_error('no') ELSE c END AS c")
    with pytest.raises(PySparkException, match="no"):
        failing.write.format("lance").mode("append").save(root)
    assert ids(root) == list(range(30))
    assert sorted(str(p) for p in Path(root).rglob("*.lance") if p.is_file()) == before


def test_a_numbered_write_is_done_once(spark: SparkSession, root: str) -> None:
    for _ in range(2):
        lance_spark.write(frame(spark, 30, 33), root, mode="append", txnAppId="job", txnVersion=1)
    assert ids(root) == list(range(33))


def test_a_namespace_that_exists_is_no_place_for_a_new_table(spark: SparkSession, root: str) -> None:
    lance_spark.write(frame(spark, 30, 33), root, mode="ignore")
    with pytest.raises(TableAlreadyExistsError):
        lance_spark.write(frame(spark, 30, 33), root)
    assert ids(root) == list(range(30))


def test_a_schema_of_spark_makes_a_namespace(spark: SparkSession, tmp_path: Path) -> None:
    data = frame(spark, 0, 4)
    namespace = lance_spark.create_partitioned_namespace(tmp_path / "s", data.schema, [("bucket", "id", 2), ("truncate", "c", 1)])
    lance_spark.write(data, namespace.uri, mode="append")
    assert ids(namespace.uri) == [0, 1, 2, 3]


def test_dynamic_overwrite_of_a_plain_table_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    writer = frame(spark, 0, 3).write.format("lance").mode("overwrite").option("partitionOverwriteMode", "dynamic")
    with pytest.raises(PySparkException, match="use replaceWhere for a table"):
        writer.save(str(tmp_path / "t"))
